"""What the addresses of pages answer to requests for files, to HEAD, to odd numbers, and while a run is measured."""

from pathlib import Path

import httpx

from evaluator.service.app import build_app
from evaluator.settings import EvaluatorSettings
from tests.support.evaluator_service import evaluator
from tests.support.gateway_stub import GatewayStub
from tests.support.held_files import held_back
from tests.support.judging_pages import begun, judged, session_of
from tests.support.served import on_a_port


async def there(client: httpx.AsyncClient, address: str) -> httpx.Response:
    """Asks again while it is computed, as a page and a client that heeds Retry-After do."""
    for _ in range(100):
        answer = await client.get(address)
        if not {"refresh", "retry-after"} & {*answer.headers}:
            return answer
    raise AssertionError("it was not computed")


async def test_the_page_of_a_run_that_is_measured_says_so(client: httpx.AsyncClient, run: str, runs: Path) -> None:
    quality = runs / run / "quality.json"
    fresh = quality.read_text()
    with held_back(runs / run / "answers" / "good.jsonl"):
        waiting = await client.post(f"/measure/{run}", data={"session": ""})
        before = await client.get(f"/runs/{run}")
        quality.write_text(fresh + "\n")  # as between the figures and the report
        between = await client.get(f"/runs/{run}")
    after = await there(client, waiting.headers["refresh"].partition("url=")[2])
    shown = await client.get(f"/runs/{run}")
    assert (after.status_code, shown.status_code) == (303, 200)
    assert (before.status_code, between.status_code, between.headers["refresh"]) == (200, 200, "2")
    assert "This run is being measured now. These are the earlier figures;" in before.text
    assert "This run is being measured now. The page reloads until" in between.text
    assert "is not the one that report.json was made from" not in between.text
    assert "report again</button>" not in between.text
    assert "being measured now" not in shown.text


async def test_head_answers_as_get_does_without_the_page(run: str, runs: Path) -> None:
    async with evaluator(GatewayStub(), runs) as client:
        path = await begun(client, run)
        await judged(client, path, "1")
        session = session_of(path)
        await there(client, f"/compare?runs={run}")
        paths = ["/", "/new", f"/runs/{run}", f"/progress/{run}", "/pages/style.css"]
        paths += [f"/compare?runs={run}", "/judge", f"/judge/{session}", path]
        paths += [f"/measure/{run}", "/runs/none"]
        answers = [(await client.get(address), await client.head(address)) for address in paths]
    kept = ("content-type", "content-length", "location", "content-security-policy")
    for by_get, by_head in answers:
        assert by_head.status_code == by_get.status_code, by_get.url
        assert [by_head.headers.get(name) for name in kept] == [by_get.headers.get(name) for name in kept], by_get.url
    app = build_app(EvaluatorSettings(runs=runs, gateway_url="http://gateway"))
    async with app.router.lifespan_context(app), on_a_port(app) as address, httpx.AsyncClient() as browser:
        over_http = await browser.head(f"{address}/pages/style.css")
    assert (over_http.status_code, over_http.content, int(over_http.headers["content-length"]) > 0) == (200, b"", True)
