"""What the page of a run says while the run is measured again."""

from pathlib import Path

import httpx

from tests.support.held_files import held_back


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
