"""A search page in one file: a box, highlights, pages.

pip install fastapi uvicorn jinja2 ./clients/python
GATEWAY_URL=http://127.0.0.1:8000 COLLECTION=demo uvicorn --app-dir docs/apps shop:app --port 8080
"""

import os
from collections.abc import Iterator
from urllib.parse import urlencode

from fastapi import FastAPI, Query
from fastapi.responses import HTMLResponse
from jinja2 import Environment

from retrieval_client import AsyncClient, RetrievalError
from retrieval_client.answers import Fragment

COLLECTION = os.environ.get("COLLECTION", "demo")
PIPELINE = os.environ.get("PIPELINE", "hybrid")
PAGE = 10
client = AsyncClient(os.environ.get("GATEWAY_URL", "http://127.0.0.1:8000"), key=os.environ.get("GATEWAY_API_KEY"))
app = FastAPI()

HTML = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ q or title }}</title>
<style>
  :root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif }
  body { margin: 0 auto; max-width: 48rem; padding: 1rem; overflow-wrap: anywhere }
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
  mark { background: #ffe08a; color: #000; border-radius: .2rem }
  nav { display: flex; justify-content: space-between; padding: 1rem 0 }
</style>
<main>
  <h1>{{ title }}</h1>
  <form role="search">
    <input type="search" name="q" value="{{ q }}" maxlength="500" aria-label="Search" placeholder="Search …" autofocus>
    <button>Search</button>
  </form>
  {% if problem %}<p role="alert">{{ problem }}</p>{% endif %}
  {% if answer %}
    {% for hit in answer.hits %}
    <article>
      <h2>{{ hit.title or hit.id }}</h2>
      {% for fragment in hit.highlights.text %}
      <p>
        {%- for part, found in pieces(fragment) %}{% if found %}<mark>{{ part }}</mark>
        {%- else %}{{ part }}{% endif %}{% endfor -%}
      </p>
      {% else %}
      <p>{{ hit.text | truncate(200) }}</p>
      {% endfor %}
      <small>
        {% for name, value in hit.metadata | dictsort %}{{ " · " if not loop.first }}{{ name }}: {{ value }}{% endfor %}
      </small>
    </article>
    {% else %}
    <p>Nothing found for “{{ q }}”.</p>
    {% endfor %}
    <nav aria-label="Pages">
      <span>{% if page > 1 %}<a href="?{{ link(page=page - 1) }}" rel="prev">← Previous</a>{% endif %}</span>
      <span>{% if answer.page.more %}<a href="?{{ link(page=page + 1) }}" rel="next">Next →</a>{% endif %}</span>
    </nav>
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
async def search(q: str = "", page: int = Query(1, ge=1, le=50)) -> HTMLResponse:
    """Shows one page of what was found."""
    answer, problem = None, None
    if q.strip():
        try:
            answer = await client.search(
                COLLECTION,
                q,
                pipeline=PIPELINE,
                top=PAGE,
                offset=(page - 1) * PAGE,
                include=["title", "text", "metadata"],
                highlight=2,
            )
        except RetrievalError as error:
            problem = error.detail
    html = template.render(
        title=COLLECTION.title(),
        q=q,
        page=page,
        answer=answer,
        problem=problem,
        pieces=pieces,
        link=lambda **to: urlencode({"q": q, **to}),
    )
    return HTMLResponse(html, 502 if problem else 200)
