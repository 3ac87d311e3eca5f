"""The page at `/` in a real Chromium, served by a gateway on a port as in production, wide and narrow."""

from collections.abc import AsyncIterator, Sequence
from urllib.parse import urlencode

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from tests.support.backends import Stack, opened_stack
from tests.support.browser_pages import accessibility_violations, figures_out_of_sight, opened_page, overflow_px
from tests.support.served import on_a_port

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

WIDTHS = (1280, 390)
COMPARED = {"query": "fruit trees", "collection": "demo", "left": "bm25", "right": "dense"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack() -> AsyncIterator[Stack]:
    async with opened_stack() as stack:
        yield stack


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def address(stack: Stack) -> AsyncIterator[str]:
    async with on_a_port(stack.app) as address:
        yield f"{address}/"


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
        assert await accessibility_violations(page) == []


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
