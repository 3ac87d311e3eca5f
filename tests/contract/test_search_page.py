"""The page at `/` over the wire: what it shows, that it escapes all of it, and how errors look."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from html import unescape
from html.parser import HTMLParser

import httpx
import pytest

from services.chassis.page_headers import ASSET_HEADERS, PAGE_HEADERS
from tests.support.backends import DOCUMENTS, Stack, opened_stack

SCRIPT = "<script>alert('x')</script>"
HOSTILE = ({"id": SCRIPT, "title": f"fruit {SCRIPT}", "text": f"fruit \"><img src=x onerror='a'> {SCRIPT}"}, *DOCUMENTS)


async def page(stack: Stack, **parameters: object) -> httpx.Response:
    given = {name: str(value) for name, value in parameters.items()}
    return await stack.client.get("/", params=given, headers={"accept": "text/html"})


class Elements(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, Mapping[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self.text += " " if tag in ("td", "th", "p", "h3") else ""

    def handle_data(self, data: str) -> None:
        self.text += data


def titles(html: str) -> list[str]:
    return [unescape(title) for title in re.findall(r"<h3[^>]*>(.*?)</h3>", html)]


async def test_a_first_visit_shows_a_form_of_what_is_served(stack: Stack) -> None:
    answer = await page(stack)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "<option selected>demo</option>" in answer.text
    for name in ("bm25", "bm25-rerank", "dense", "hybrid", "hybrid-rerank"):
        assert answer.text.count(f">{name}</option>") == 2
    assert "<h3" not in answer.text


def offered(html: str) -> tuple[list[str], str]:
    """Returns the pipelines that the form offers, and which one is chosen first."""
    first = html.partition('id="left"')[2].partition("</select>")[0]
    (chosen,) = re.findall(r"<option selected>([^<]+)<", first)
    return re.findall(r"<option[^>]*>([^<]+)<", first), chosen


async def test_pipelines_that_a_collection_cannot_serve_are_not_offered(stack: Stack) -> None:
    alone = {"build": "alone", "backends": ["lexical"]}
    assert (await stack.client.put("/v1/collections/words", json=alone)).is_success
    sent = await stack.client.post("/v1/collections/words/documents", json={"documents": DOCUMENTS, "build": "alone"})
    assert sent.json()["complete"]
    assert (await stack.client.post("/v1/collections/words/publish", json={"build": "alone"})).is_success
    both, words = await page(stack), await page(stack, collection="words")
    assert {"dense", "hybrid"} < {*offered(both.text)[0]}
    assert not {"deepct", "doc2query"} & {*offered(both.text)[0]}  # no document was expanded
    assert offered(words.text) == (["bm25", "bm25-rerank"], "bm25")
    for name in offered(words.text)[0]:
        assert (await page(stack, collection="words", query="fruit", left=name, right="")).status_code == 200
    refused = await stack.search("fruit", "deepct")
    assert (refused.status_code, "deepct is not declared for this collection" in refused.text) == (422, True)
    # Where another collection is, its pipelines are a link away.
    assert '<a href="?collection=words">words</a>' in both.text
    assert '<a href="?collection=demo">demo</a>' in words.text


async def test_the_page_links_to_the_evaluator_where_a_setting_says_where_it_is(stack: Stack) -> None:
    async with opened_stack(evaluator_url="http://127.0.0.1:8009/") as linked:
        shown = Elements((await page(linked)).text).found
    assert ("a", {"href": "http://127.0.0.1:8009"}) in shown
    assert "Evaluator" not in (await page(stack)).text


async def test_two_lists_stand_side_by_side_with_what_moved(stack: Stack) -> None:
    answer = await page(stack, query="fruit trees", collection="demo", left="bm25", right="dense", top=5)
    direct = [
        [hit["title"] for hit in (await stack.search("fruit trees", name, top=5, include=["title"])).json()["hits"]]
        for name in ("bm25", "dense")
    ]
    assert titles(answer.text) == direct[0] + direct[1]
    assert "Left: bm25" in answer.text
    assert "1 place higher than on the right" in answer.text
    assert "same place as on the left" in answer.text
    assert "not among the 3 hits on the left" in answer.text
    assert re.findall(r"(\d+) found([^<]*)", answer.text) == [("3", ""), ("5", " (candidates)")]


async def test_each_list_shows_scores_places_times_and_stages(stack: Stack) -> None:
    answer = await page(stack, query="fruit trees", collection="demo", left="hybrid-rerank", right="")
    text = " ".join(Elements(answer.text).text.split())
    assert re.search(r"tree · score \d+\.\d{4} · bm25 2 · dense 1 · fuse 1 · rerank 1", text)
    assert "rerank rerank backend reranker, top 100, weight 0.3, on_failure skip" in text
    assert re.search(r"Stage or part ms bm25 \d+\.\d", text)
    assert "Generation demo@1" in text


async def test_what_was_degraded_is_said_above_the_list(stack: Stack) -> None:
    stack.wires["reranker"].fault = "refused"
    answer = await page(stack, query="fruit", collection="demo", left="bm25", right="hybrid-rerank")
    assert answer.status_code == 200
    assert answer.text.count("Degraded: a stage did less than the pipeline says.") == 1
    assert re.search(r"<code>rerank</code> unreachable, 0 of \d+ done", answer.text)


async def test_nothing_of_a_query_an_id_a_title_or_a_text_becomes_markup() -> None:
    async with opened_stack(documents=HOSTILE) as stack:
        answer = await page(stack, query=f"fruit {SCRIPT} \"'", collection="demo", left="bm25", right="dense")
    elements = Elements(answer.text).found
    assert not any(
        tag in ("script", "img", "style", "iframe") or any(a.startswith("on") for a in of) for tag, of in elements
    )
    assert dict(elements)["input"]
    assert f"fruit {SCRIPT}" in Elements(answer.text).text
    assert titles(answer.text).count(f"fruit {SCRIPT}") == 2
    (query,) = [of["value"] for tag, of in elements if tag == "input" and of.get("name") == "query"]
    assert query == f"fruit {SCRIPT} \"'"


async def test_what_was_typed_stays_typed_and_escaped_where_it_is_refused(stack: Stack) -> None:
    answer = await page(stack, query="fruit", collection=SCRIPT, left='"><b>', top="x")
    assert answer.status_code == 422
    assert "<b>" not in answer.text
    assert SCRIPT not in answer.text
    assert f"<option selected>{SCRIPT}</option>" in unescape(answer.text)


@pytest.mark.parametrize("path", ["/", "/docs", "/?query=fruit&collection=nope"])
async def test_a_page_may_load_the_files_of_the_gateway_alone(stack: Stack, path: str) -> None:
    answer = await stack.client.get(path)
    assert PAGE_HEADERS.items() <= answer.headers.items()
    for tag, attributes in Elements(answer.text).found:
        assert "style" not in attributes
        if tag in ("link", "script"):
            loaded = await stack.client.get(str(attributes.get("src") or attributes.get("href")))
            assert loaded.status_code == 200
            assert ASSET_HEADERS.items() <= loaded.headers.items()
            assert loaded.content


async def test_an_unknown_collection_is_said_on_the_page_with_its_status(stack: Stack) -> None:
    answer = await page(stack, query="fruit", collection="nope", left="bm25", right="dense")
    assert answer.status_code == 404
    text = Elements(answer.text).text
    assert text.count("404 Unknown collection. There is no collection 'nope'; ") == 1


async def test_one_list_is_shown_although_the_other_has_a_problem(stack: Stack) -> None:
    stack.wires["dense"].fault = "refused"
    answer = await page(stack, query="fruit", collection="demo", left="bm25", right="dense")
    assert answer.status_code == 200
    assert "503 Unavailable." in Elements(answer.text).text
    assert "Apple" in titles(answer.text)


async def test_an_overloaded_gateway_says_so_on_the_page_also_before_it_reads_a_request() -> None:
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "client": ("127.0.0.1", 1)}
    async with opened_stack(max_in_flight=1, max_waiting=0) as stack:
        stack.wires["lexical"].fault = stack.wires["dense"].fault = "hung"
        held = asyncio.create_task(stack.search("fruit", "hybrid", deadline_ms=800))
        await asyncio.sleep(0.1)
        answer = await page(stack, query="fruit", collection="demo", left="hybrid", right="")
        refusal = stack.app.state.early_refusal(scope)
        await held
    assert (refusal.status_code, refusal.media_type) == (429, "text/html")
    assert int(refusal.headers["retry-after"]) >= 1
    assert b"429 Overloaded" in refusal.body
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) >= 1
    said = Elements(answer.text).text
    assert "429 Overloaded. Too many requests are waiting" in said
    assert f"(Retry-After: {answer.headers['retry-after']} s)" in said
    assert 'value="fruit"' in answer.text


async def test_a_hung_first_search_leaves_the_second_its_time(stack: Stack) -> None:
    stack.wires["dense"].fault = "hung"
    parameters = {"query": "fruit", "collection": "demo", "left": "dense", "right": "bm25"}
    answer = await stack.client.get("/", params=parameters, headers={"x-deadline-ms": "1000"})
    assert answer.status_code == 200
    given = re.search(r"dense: no answer within (0\.\d+) s\.", Elements(answer.text).text)
    assert given
    assert 0.1 < float(given[1]) <= 0.45  # half of the deadline at most, less what was used before
    assert "Apple" in titles(answer.text)


async def test_a_deadline_that_cannot_be_read_is_a_page_too(stack: Stack) -> None:
    answer = await stack.client.get("/", headers={"x-deadline-ms": "soon"})
    assert (answer.status_code, answer.headers["content-type"]) == (400, "text/html; charset=utf-8")
    assert "X-Deadline-Ms must be a whole number" in answer.text
    assert PAGE_HEADERS.items() <= answer.headers.items()


async def test_a_blind_comparison_gets_a_seed_in_its_address(stack: Stack) -> None:
    parameters = {"query": "a&b fruit", "collection": "demo", "left": "bm25", "right": "dense", "blind": "1"}
    answer = await stack.client.get("/", params=parameters)
    assert answer.status_code == 303
    target = httpx.URL(answer.headers["location"])
    assert {**parameters, "top": "10"} == {name: v for name, v in target.params.items() if name != "seed"}
    assert 0 <= int(target.params["seed"]) < 2**32
    assert (await stack.client.get("/" + answer.headers["location"])).status_code == 200


async def test_a_blind_page_shows_neither_names_nor_what_tells_them(stack: Stack) -> None:
    stack.wires["reranker"].fault = "refused"
    asked = {"query": "fruit", "collection": "demo", "left": "bm25", "right": "hybrid-rerank", "top": 4, "blind": 1}
    answer = await page(stack, **asked, seed=1)
    shown = re.sub(r"<p hidden>.*?</p>", "", answer.text, flags=re.DOTALL)
    form = Elements(shown[shown.index("<form") : shown.index("</form>")])
    assert [of["name"] for tag, of in form.found if tag == "select"] == ["collection"]
    text = Elements(shown[shown.index('<div class="sides two">') :]).text
    for hidden in ("bm25", "rerank", "score", "ms", "found", "demo@1", "unreachable"):
        assert hidden not in text.split("Degraded: a stage did less than the pipeline says.")[0]
    assert "Degraded" in text
    assert text.count("Apple") == 2
    assert not re.search(r"not among the \w+ hit", text)
    opened = re.findall(r'href="(\?[^"]*)">Show which is which', answer.text)[0]
    assert "hybrid-rerank" in Elements((await stack.client.get("/" + unescape(opened))).text).text


async def test_without_the_page_there_are_no_routes_of_it() -> None:
    async with opened_stack(page=False) as stack:
        for path in ("/", "/docs", "/page/page.css"):
            answer = await stack.client.get(path)
            assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
        assert (await stack.search("fruit", "bm25")).status_code == 200


async def test_the_list_of_routes_has_every_route_of_the_api(stack: Stack) -> None:
    row = r"<td>([A-Z]+)</td><td><code>(.*?)</code></td><td>(.*?)</td>"
    listed = re.findall(row, (await stack.client.get("/docs")).text)
    paths = (await stack.client.get("/openapi.json")).json()["paths"]
    assert [does for _, _, does in listed if not re.fullmatch(r"[A-Z].* .*\.", does)] == []
    assert {(method, unescape(path)) for method, path, _ in listed} == {
        (method.upper(), path) for path, methods in paths.items() for method in methods
    }


async def test_searches_of_a_page_add_nothing_up_in_the_times_of_stages(stack: Stack) -> None:
    answer = await page(stack, query="fruit", collection="demo", left="bm25", right="bm25")
    assert re.fullmatch(r"total;dur=[\d.]+", answer.headers["server-timing"])
    metrics = (await stack.client.get("/metrics")).text
    assert 'stage_seconds_count{stage="bm25"}' not in metrics
    assert 'http_requests_total{method="GET",route="/",status="200"} 1.0' in metrics
