"""The walkthrough docs/apps/shop.py over a gateway with real services."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.support.shop_app import opened_shop


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the app."""
    async with opened_shop(tmp_path) as app:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://shop") as opened:
            yield opened


async def test_a_search_marks_the_words_that_were_found_and_escapes_all_html(page: httpx.AsyncClient) -> None:
    shown = (await page.get("/", params={"q": "kettle"})).text
    assert shown.count("<article>") == 10
    assert "A <mark>kettle</mark> &amp; &lt;script&gt;alert(1)" in shown
    assert "<h2><mark>Kettle</mark> &lt;0&gt;</h2>" in shown
    assert "use: tea, soup ·" in shown
    assert "<script>" not in shown
    assert "<script>" not in (await page.get("/", params={"q": '"><script>'})).text


async def test_links_lead_through_all_pages(page: httpx.AsyncClient) -> None:
    shown = [(await page.get("/", params={"q": "kettle", "page": number})).text for number in (1, 2, 3)]
    assert ['rel="next"' in one for one in shown] == [True, True, False]
    assert ['rel="prev"' in one for one in shown] == [False, True, True]
    assert 'href="?q=kettle&amp;page=3"' in shown[1]
    assert [one.count("<article>") for one in shown] == [10, 10, 5]
    assert 'href="?q=kettle&amp;page=99" rel="prev"' in (await page.get("/?q=kettle&page=5000")).text


async def test_a_facet_narrows_down_on_every_page_and_is_taken_back(page: httpx.AsyncClient) -> None:
    assert 'href="?q=kettle&amp;f.colour=red&amp;page=1">red (5)</a>' in (await page.get("/?q=kettle")).text
    red = (await page.get("/?q=kettle&f.colour=red")).text
    assert red.count("<article>") == 5
    assert "blue" not in red
    assert '<a href="?q=kettle&amp;page=1" aria-label="Remove red">' in red
    assert (
        'href="?q=kettle&amp;f.colour=blue&amp;page=2" rel="next"' in (await page.get("/?q=kettle&f.colour=blue")).text
    )


async def test_an_empty_value_is_no_facet(page: httpx.AsyncClient) -> None:
    shown = (await page.get("/?q=kettle")).text
    assert ("(1)</a>" in shown, shown.count("f.colour=")) == (False, 2)
    assert (await page.get("/?q=kettle&f.colour=")).text == shown


async def test_an_empty_box_lists_all_and_nothing_found_is_told(page: httpx.AsyncClient) -> None:
    shown = (await page.get("/", params={"page": 3})).text
    assert ("25 found" in shown, shown.count("<article>")) == (True, 5)
    assert "Nothing found" in (await page.get("/", params={"q": "zebra"})).text


async def test_what_is_found_by_vectors_are_the_candidates_on_all_pages(tmp_path: Path) -> None:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "vectors.yaml").write_text(
        "name: vectors\nstages: [{kind: retrieve, backend: dense, top: 12}]"
    )
    async with (
        opened_shop(tmp_path, "vectors") as app,
        httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://shop") as page,
    ):
        shown = [(await page.get("/", params={"q": "zebra", "page": number})).text for number in (1, 2)]
    assert [one.count("<article>") for one in shown] == [10, 2]
    assert ["The best 12 found" in one for one in shown] == [True, True]
    assert ['rel="next"' in one for one in shown] == [True, False]
    assert sum(map(int, re.findall(r">(?:red|blue) \((\d+)\)</a>", shown[0]))) in (11, 12)  # one kettle has no colour


async def test_a_failed_search_says_why(page: httpx.AsyncClient) -> None:
    refused = await page.get("/", params={"q": "x" * 40_000})
    assert (refused.status_code, 'role="alert"' in refused.text) == (502, True)
