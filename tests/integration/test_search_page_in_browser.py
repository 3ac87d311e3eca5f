"""The page at `/` in a real Chromium, served by a gateway on a port as in production, wide and narrow."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from urllib.parse import urlencode

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from tests.support.backends import Stack, opened_stack
from tests.support.browser_pages import (
    accessibility_violations,
    figures_out_of_sight,
    opened_browser,
    opened_page,
    overflow_px,
)
from tests.support.served import on_a_port

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

WIDTHS = (1280, 390)
COMPARED = {"query": "fruit trees", "collection": "demo", "left": "bm25", "right": "dense"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with opened_browser() as browser:
        yield browser


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack() -> AsyncIterator[Stack]:
    async with opened_stack() as stack:
        yield stack


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def address(stack: Stack) -> AsyncIterator[str]:
    async with on_a_port(stack.app) as address:
        yield f"{address}/"


async def notes(page: Page) -> list[dict[str, object]]:
    kept = await page.evaluate("localStorage.getItem('retrieval-stack.preferences')")
    return [] if kept is None else json.loads(kept)


async def shown_titles(page: Page, side: str) -> Sequence[str]:
    return await page.locator(f"#list-{side} h3").all_inner_texts()


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
async def test_a_query_is_typed_and_compared_and_axe_finds_no_fault(
    browser: Browser, address: str, width: int, dark: bool
) -> None:
    async with opened_page(browser, width, dark=dark) as page:
        await page.goto(address)
        await expect(page.get_by_label("Query")).to_be_focused()  # a moment after the page is loaded
        await page.keyboard.type("fruit trees")
        await page.get_by_label("Compared with").select_option("dense")
        await page.get_by_role("button", name="Search").click()
        await expect(page.get_by_role("heading", name="Left: bm25")).to_be_visible()
        await expect(page.get_by_role("heading", name="Right: dense")).to_be_visible()
        await page.wait_for_load_state()  # headings may be shown while the rest of the page is still being read
        assert await shown_titles(page, "left") == ["Apple", "Trees", "Banana"]
        assert (await shown_titles(page, "right"))[:2] == ["Trees", "Apple"]
        for summary in await page.locator("summary").all():
            await summary.click()
        assert await accessibility_violations(page) == []
        assert await figures_out_of_sight(page) == []
        assert await overflow_px(page) == 0


@pytest.mark.parametrize("width", WIDTHS)
async def test_lists_stand_side_by_side_where_there_is_room(browser: Browser, address: str, width: int) -> None:
    async with opened_page(browser, width) as page:
        await page.goto(f"{address}?{urlencode(COMPARED)}")
        left, right = [await page.locator(f"#list-{side}").bounding_box() for side in ("left", "right")]
        assert left is not None
        assert right is not None
        assert (left["y"] == right["y"]) is (width > 768)


async def test_a_preference_is_noted_by_click_and_changed_by_key(browser: Browser, address: str) -> None:
    async with opened_page(browser, 390) as page:
        await page.goto(f"{address}?{urlencode(COMPARED)}")
        await page.get_by_role("button", name="Left").click()
        await expect(page.locator("#noted")).to_have_text("Noted: left (bm25).")
        for key, preferred in (
            ("2", "right"),
            ("0", "same"),
            ("ArrowLeft", "left"),
            ("ArrowRight", "right"),
            ("1", "left"),
        ):
            await page.keyboard.press(key)
            (noted,) = await notes(page)
            assert noted["preferred"] == preferred
        await page.keyboard.press("Control+2")
        await page.get_by_label("Query").press("2")
        assert (await notes(page))[0]["preferred"] == "left"
        await page.get_by_label("Keys 1").uncheck()
        await page.locator("h1").click()
        await page.keyboard.press("2")
        assert (await notes(page))[0]["preferred"] == "left"
        assert await accessibility_violations(page) == []


async def test_a_note_says_what_was_compared_and_survives_a_reload(browser: Browser, address: str) -> None:
    async with opened_page(browser, 1280) as page:
        await page.goto(f"{address}?{urlencode(COMPARED)}")
        await page.keyboard.press("2")
        await page.reload()
        await expect(page.get_by_role("button", name="Right")).to_have_attribute("aria-pressed", "true")
        (noted,) = await notes(page)
        assert {name: noted[name] for name in COMPARED} == COMPARED
        assert (noted["generation"], noted["top"], noted["preferred"]) == ("demo@1", 10, "right")
        assert (noted["blind"], noted["seed"], noted["degraded"]) == (False, None, [])
        assert str(noted["time"]).endswith("Z")
        await expect(page.locator("#tally")).to_have_text(
            "1 noted. These two on demo: bm25 0, dense 1, no difference 0."
        )


async def test_notes_are_downloaded_as_json_lines_and_forgotten(browser: Browser, address: str, tmp_path: Path) -> None:
    async with opened_page(browser, 1280) as page:
        page.on("dialog", lambda dialog: asyncio.ensure_future(dialog.accept()))
        for query in ("fruit", "root"):
            await page.goto(f"{address}?{urlencode({**COMPARED, 'query': query})}")
            await page.keyboard.press("1")
        await page.goto(address)
        async with page.expect_download() as started:
            await page.get_by_role("button", name="Download").click()
        downloaded = await started.value
        assert downloaded.suggested_filename == "preferences.jsonl"
        await downloaded.save_as(tmp_path / "preferences.jsonl")
        lines = (tmp_path / "preferences.jsonl").read_text(encoding="utf-8").splitlines()
        assert [json.loads(line)["query"] for line in lines] == ["fruit", "root"]
        await page.get_by_role("button", name="Forget").click()
        await expect(page.locator("#notes")).to_be_hidden()
        assert await notes(page) == []


@pytest.mark.parametrize(("width", "seed"), [(1280, 1), (390, 2)])  # swapped, and not
async def test_a_blind_comparison_names_its_sides_after_the_preference(
    browser: Browser, address: str, width: int, seed: int
) -> None:
    async with opened_page(browser, width) as page:
        await page.goto(f"{address}?{urlencode({**COMPARED, 'blind': 1, 'seed': seed})}")
        await expect(page.locator("#title-left")).to_have_text("Left", use_inner_text=True)
        assert "score" not in await page.locator(".sides").inner_text()
        first = (await shown_titles(page, "left"))[0]
        await page.keyboard.press("2")
        left, right = ("bm25", "dense") if first == "Apple" else ("dense", "bm25")
        await expect(page.get_by_role("heading", name=f"Left: {left}")).to_be_visible()
        await expect(page.get_by_role("heading", name=f"Right: {right}")).to_be_visible()
        await page.keyboard.press("1")  # the names are known: the note stands
        (noted,) = await notes(page)
        assert (noted["left"], noted["right"], noted["preferred"]) == (left, right, "right")
        assert (noted["blind"], noted["seed"]) == (True, seed)
        assert await accessibility_violations(page) == []


async def test_blind_is_chosen_in_the_form_and_reloads_with_the_same_sides(browser: Browser, address: str) -> None:
    async with opened_page(browser, 1280) as page:
        await page.goto(f"{address}?{urlencode(COMPARED)}")
        await page.get_by_label("Blind").check()
        await page.get_by_role("button", name="Search").click()
        await expect(page.locator("#title-left")).to_have_text("Left", use_inner_text=True)
        await page.wait_for_load_state()
        assert "seed=" in page.url
        before = await shown_titles(page, "left")
        await page.reload()
        assert await shown_titles(page, "left") == before


async def test_without_script_it_searches_and_offers_no_preference(browser: Browser, address: str) -> None:
    async with opened_page(browser, 390, script=False) as page:
        await page.goto(address)
        await page.get_by_label("Query").fill("fruit trees")
        await page.get_by_label("Blind").check()
        await page.get_by_role("button", name="Search").click()
        await expect(page.locator("#list-left h3")).not_to_have_count(0)
        await expect(page.get_by_role("button", name="Right")).to_be_hidden()
        await page.get_by_role("link", name="Show which is which").click()
        await expect(page.locator("#title-right")).to_contain_text(":", use_inner_text=True)
        assert {await page.locator(f"#title-{side}").inner_text() for side in ("left", "right")} in (
            {"Left: bm25", "Right: hybrid"},
            {"Left: hybrid", "Right: bm25"},
        )


async def test_what_was_degraded_and_what_failed_is_seen(browser: Browser, address: str, stack: Stack) -> None:
    stack.wires["reranker"].fault = "refused"
    try:
        async with opened_page(browser, 390) as page:
            await page.goto(f"{address}?{urlencode({**COMPARED, 'right': 'hybrid-rerank'})}")
            await expect(page.locator("#list-right .degraded")).to_contain_text("rerank unreachable, 0 of 5 done")
            await page.goto(f"{address}?{urlencode({**COMPARED, 'collection': 'nope'})}")
            await expect(page.get_by_role("alert")).to_contain_text("404 Unknown collection.")
            assert await accessibility_violations(page) == []
            assert await overflow_px(page) == 0
    finally:
        stack.wires["reranker"].fault = None


async def test_the_list_of_routes_leads_to_the_description_of_the_api(browser: Browser, address: str) -> None:
    async with opened_page(browser, 390) as page:
        await page.goto(f"{address}docs")
        assert await accessibility_violations(page) == []
        assert await figures_out_of_sight(page) == []
        assert await overflow_px(page) == 0
        await page.get_by_role("link", name="openapi.json").click()
        await expect(page.locator("body")).to_contain_text('"openapi"')


async def test_a_browser_that_keeps_nothing_says_so_and_searches(browser: Browser, address: str) -> None:
    async with opened_page(browser, 390) as page:
        denied = "Object.defineProperty(window, 'localStorage', {get() { throw new Error('denied') }})"
        await page.add_init_script(denied)
        await page.goto(f"{address}?{urlencode(COMPARED)}")
        await expect(page.locator("#notes")).to_contain_text("Preferences cannot be noted in this browser: denied")
        await expect(page.get_by_role("button", name="Left")).to_be_hidden()
        await page.wait_for_load_state()  # headings may be shown while the rest of the page is still being read
        assert await shown_titles(page, "left") == ["Apple", "Trees", "Banana"]


@pytest.mark.parametrize(
    ("script", "event", "fault"),
    [
        ("location.href = 'https://example.org/'", "request", "sent requests to .*example"),
        (
            "document.body.insertAdjacentHTML('beforeend', '<p style=\"color: red\">x</p>')",
            "console",
            "Content Security Policy",
        ),
        ("setTimeout(() => { throw new Error('of a script') })", "weberror", "of a script"),
    ],
)
async def test_a_request_that_leaves_the_machine_or_a_fault_of_a_script_fails_a_test(
    browser: Browser, address: str, script: str, event: str, fault: str
) -> None:
    with pytest.raises(AssertionError, match=fault):
        await run_script(browser, address, script, event)


async def run_script(browser: Browser, address: str, script: str, event: str) -> None:
    async with opened_page(browser, 390) as page:
        await page.goto(address)
        async with page.context.expect_event(event):
            await page.evaluate(script)
