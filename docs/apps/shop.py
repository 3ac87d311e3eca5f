"""A search page in one file: a box, facets, highlights, pages.

pip install fastapi uvicorn jinja2 ./clients/python
COLLECTION=shop FACETS=brand,colour uvicorn --app-dir docs/apps shop:app --port 8080

FACETS are keywords that the collection declares. Others of its settings are GATEWAY_URL, GATEWAY_API_KEY, PIPELINE.
"""

import os
from collections.abc import Iterator
from urllib.parse import urlencode

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment

from retrieval_client import AsyncClient, RetrievalError
from retrieval_client.answers import Condition, Fragment

COLLECTION = os.environ.get("COLLECTION", "demo")
PIPELINE = os.environ.get("PIPELINE", "bm25")  # finds all that share a word; others find their candidates
FACETS = [field for field in os.environ.get("FACETS", "").split(",") if field]
PAGE, DEEPEST = 10, 1_000  # hits of a page, and the last one that the gateway gives
client = AsyncClient(os.environ.get("GATEWAY_URL", "http://127.0.0.1:8000"), key=os.environ.get("GATEWAY_API_KEY"))
app = FastAPI()

HTML = """{% macro marked(fragment) %}
{% for part, found in pieces(fragment) %}{% if found %}<mark>{{ part }}</mark>
{%- else %}{{ part }}{% endif %}{% endfor %}
{% endmacro %}
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ q or title }}</title>
<style>
  :root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif }
  body { margin: 0 auto; max-width: 64rem; padding: 1rem; overflow-wrap: anywhere }
  h1 { font-size: 1.3rem; margin: 0 0 .75rem }
  form { display: flex; gap: .5rem; margin-bottom: 1.5rem }
  input, button { font: inherit; padding: .6rem .9rem; border: 1px solid GrayText; border-radius: .5rem }
  input { flex: 1; min-width: 0 }
  button { background: #0b57d0; border-color: #0b57d0; color: #fff }
  article { padding: 1rem 0; border-top: 1px solid color-mix(in srgb, currentColor 20%, transparent) }
  h2 { font-size: 1.1rem; margin: 0 }
  p { margin: .25rem 0 0 }
  small { opacity: .75 }
  a { color: inherit }
  aside { margin-bottom: 1rem }
  aside p { display: flex; flex-wrap: wrap; gap: .25rem .75rem }
  aside h2 { margin-top: .75rem; text-transform: capitalize }
  @media (min-width: 48rem) {
    .found { display: grid; grid-template-columns: 12rem minmax(0, 1fr); gap: 2rem }
    aside p { flex-direction: column }
  }
  mark { background: #ffe08a; color: #000; border-radius: .2rem }
  nav { display: flex; justify-content: space-between; padding: 1rem 0 }
</style>
<main>
  <h1>{{ title }}</h1>
  <form role="search">
    <input type="search" name="q" value="{{ q }}" maxlength="500" aria-label="Search" placeholder="Search …" autofocus>
    {% for field, value in chosen.items() %}
    <input type="hidden" name="f.{{ field }}" value="{{ value }}">
    {% endfor %}
    <button>Search</button>
  </form>
  {% if problem %}<p role="alert">{{ problem }}</p>{% endif %}
  {% if answer %}
  <div {% if facets %}class="found"{% endif %}>
  <aside aria-label="Narrow down">
    <p>{{ "The best " if answer.matches.relation == "candidates" }}{{ answer.matches.total }} found</p>
    {% for field, counts in facets.items() %}
    <h2>{{ field }}</h2>
    <p>
      {% if field in chosen %}
      <a href="{{ link(field) }}" aria-label="Remove {{ chosen[field] }}">✕ <b>{{ chosen[field] }}</b></a>
      {% else %}
      {% for one in counts.values if one.value %}
      <a href="{{ link(field, one.value) }}">{{ one.value }} ({{ one.count }})</a>
      {% endfor %}
      {% endif %}
    </p>
    {% endfor %}
  </aside>
  <div>
    {% for hit in answer.hits %}
    <article>
      {% set titles = hit.highlights.title %}
      <h2>{{ marked(titles[0]) if titles else hit.title or hit.id }}</h2>
      {% for fragment in hit.highlights.text %}
      <p>{{ marked(fragment) }}</p>
      {% else %}
      <p>{{ hit.text | truncate(200) }}</p>
      {% endfor %}
      <small>
        {% for name, value in hit.metadata | dictsort %}
        {{ name }}: {{ value | join(", ") if value is sequence and value is not string else value }}
        {{- " · " if not loop.last }}
        {% endfor %}
      </small>
    </article>
    {% else %}
    <p>Nothing found for “{{ q }}”.</p>
    {% endfor %}
    <nav aria-label="Pages">
      <span>{% if page > 1 %}<a href="{{ link(page=page - 1) }}" rel="prev">← Previous</a>{% endif %}</span>
      <span>{% if answer.page.more %}<a href="{{ link(page=page + 1) }}" rel="next">Next →</a>{% endif %}</span>
    </nav>
  </div>
  </div>
  {% endif %}
</main>
"""
template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(HTML)


def pieces(fragment: Fragment) -> Iterator[tuple[str, bool]]:
    """Yields the parts of a fragment, and whether each is a word of the query."""
    after = 0
    for first, end in fragment.matches:
        yield fragment.text[after:first], False
        yield fragment.text[first:end], True
        after = end
    yield fragment.text[after:], False


@app.get("/")
async def search(request: Request, q: str = "", page: int = 1) -> HTMLResponse:
    """Shows one page of what was found. `f.<field>` narrows it down to a value of a facet."""
    asked, page = request.query_params, min(max(page, 1), (DEEPEST - 1) // PAGE + 1)
    chosen = {field: asked[f"f.{field}"] for field in FACETS if asked.get(f"f.{field}")}

    def link(field: str = "", value: str = "", page: int = 1) -> str:
        facets = {f"f.{name}": one for name, one in {**chosen, field: value}.items() if one}
        return "?" + urlencode({"q": q, **facets, "page": page})

    conditions: list[Condition] = [{"field": name, "op": "eq", "value": one} for name, one in chosen.items()]
    answer, problem = None, None
    try:
        answer = await client.search(
            COLLECTION,
            q.strip(),  # an empty one lists all
            pipeline=PIPELINE,
            top=PAGE,
            offset=(page - 1) * PAGE,
            filter={"all": conditions} if conditions else None,
            include=["title", "text", "metadata"],
            highlight=2,
            facets=[{"field": field} for field in FACETS],
            total=True,
        )
    except RetrievalError as error:
        problem = error.detail
    facets = (answer.matches.facets if answer and answer.matches else None) or {}
    shown = {"title": COLLECTION.title(), "q": q, "page": page, "answer": answer, "problem": problem}
    html = template.render(shown, facets=facets, chosen=chosen, link=link, pieces=pieces)
    return HTMLResponse(html, 502 if problem else 200)
