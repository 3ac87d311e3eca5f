"""The pages of the evaluator's service in a real Chromium: by click, by keyboard, wide and narrow."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, expect

from tests.support.browser_pages import opened_page
from tests.support.evaluator_pages import SCRIPT, evaluator_on_a_port, expect_sound, hostile_copy, write_part
from tests.support.evaluator_service import ended

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

SLOW_MS = 60_000  # of a shared machine: an experiment that a page waits for
PIPELINES = ["bm25", "dense"]


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_part(tmp_path_factory.mktemp("collections") / "workshop")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("evaluator") / "runs"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def address(runs: Path, collection: Path) -> AsyncIterator[str]:
    async with evaluator_on_a_port(runs, collection.parent) as address:
        yield address


async def finished_run(address: str, dataset: Path, **more: object) -> str:
    """Runs an experiment by the API; returns its id."""
    body = {"name": "seen", "dataset": str(dataset), "pipelines": PIPELINES, "warmup": 1, **more}
    async with httpx.AsyncClient(base_url=address) as client:
        started = await client.post("/v1/experiments", json=body)
        assert started.status_code == 202, started.text
        run: str = started.json()["id"]
        assert (await ended(client, run))["state"] == "done"
    return run


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def run(address: str, collection: Path) -> str:
    return await finished_run(address, collection)


class Clicks:
    """A reader with a mouse. Typing into a field needs keys all the same."""

    def __init__(self, page: Page) -> None:
        self.page = page

    async def press(self, control: Locator) -> None:
        await control.click()

    async def fill(self, field: Locator, text: str) -> None:
        await field.click()
        await self.page.keyboard.type(text)

    async def grade(self, grade: str) -> None:
        await self.page.locator(f'button[data-key="{grade}"]').click()


class Keys:
    """A reader with a keyboard alone, who reaches every control by Tab."""

    MOST_TABS = 150

    def __init__(self, page: Page) -> None:
        self.page = page

    async def _reach(self, control: Locator) -> None:
        for _ in range(self.MOST_TABS):
            if await control.evaluate("one => one === document.activeElement"):
                return
            await self.page.keyboard.press("Tab")
        raise AssertionError(f"Tab does not reach {control}")

    async def press(self, control: Locator) -> None:
        await self._reach(control)
        await self.page.keyboard.press("Enter")

    async def fill(self, field: Locator, text: str) -> None:
        await self._reach(field)
        await self.page.keyboard.type(text)

    async def grade(self, grade: str) -> None:
        await expect(self.page.get_by_label("Keys 0 to 2")).to_be_visible()  # the script is there
        await self.page.keyboard.press(grade)


@pytest.mark.parametrize(("reader", "width", "dark"), [(Clicks, 1280, False), (Keys, 390, True)])
async def test_a_reader_starts_watches_compares_judges_and_sees_other_figures(
    browser: Browser,
    address: str,
    collection: Path,
    runs: Path,
    reader: type[Clicks] | type[Keys],
    width: int,
    dark: bool,
) -> None:
    async with opened_page(browser, width, dark=dark) as page:
        hands = reader(page)
        await page.goto(f"{address}/new")
        await expect_sound(page)
        await page.get_by_label("Dataset").select_option(collection.name)
        for name in PIPELINES:
            await page.get_by_label(name, exact=True).check()
        await hands.press(page.get_by_role("button", name="Start"))
        await page.wait_for_url("**/runs/*")
        # The page of a running experiment becomes that of its report by itself.
        await expect(page.get_by_role("heading", name="demo: workshop")).to_be_visible(timeout=SLOW_MS)
        await expect_sound(page)
        run = page.url.rpartition("/")[2]

        await hands.press(page.get_by_role("link", name="Compare its pipelines"))
        await expect(page.get_by_role("heading", name="Comparison: nDCG@10")).to_be_visible(timeout=SLOW_MS)
        await expect(page.get_by_text(SCRIPT).first).to_be_visible()
        await expect_sound(page)
        await hands.press(page.locator(".choose > summary"))
        await page.get_by_label("Baseline").select_option("dense")
        await page.get_by_label("Metric", exact=True).select_option("MRR@10")
        await expect_sound(page)
        await hands.press(page.get_by_role("button", name="Compare"))
        await expect(page.get_by_role("heading", name="Comparison: MRR@10")).to_be_visible(timeout=SLOW_MS)
        await expect(page.locator("#baseline")).to_have_value(f"{run}:dense")

        await hands.press(page.get_by_role("link", name=run))
        await hands.press(page.get_by_role("link", name="Judge unjudged documents"))
        await expect(page.get_by_role("heading", name="New judging session")).to_be_visible()
        await expect_sound(page)
        await hands.fill(page.get_by_label("Your name as a judge"), "ann")
        await hands.press(page.get_by_role("button", name="Make the session and begin"))
        await expect(page.get_by_text("ann: 0 graded")).to_be_visible(timeout=SLOW_MS)
        await expect_sound(page)
        await hands.grade("2")
        await expect(page.get_by_text("ann: 1 graded, 0 skipped")).to_be_visible()
        await hands.grade("s")
        await expect(page.get_by_text("ann: 1 graded, 1 skipped")).to_be_visible()
        await hands.grade("u")
        await expect(page.get_by_text("ann: 1 graded, 0 skipped")).to_be_visible()
        await hands.grade("1")
        await expect(page.get_by_text("ann: 2 graded, 0 skipped")).to_be_visible()

        await hands.press(page.get_by_role("link", name="the session"))
        await expect(page.get_by_role("heading", name="Judging workshop")).to_be_visible(timeout=SLOW_MS)
        await expect_sound(page)
        await hands.press(page.get_by_role("button", name=f"Measure {run}"))
        folded = page.locator("summary", has_text="Added judgments")
        await expect(folded).to_be_visible(timeout=SLOW_MS)
        await hands.press(folded)
        await expect(page.get_by_text("Figures before and after the judgments were added")).to_be_visible()
        await expect_sound(page)
        assert json.loads((runs / run / "report.json").read_text())["added_judgments"]["files"][0]["added"] == 2


@pytest.mark.parametrize(("width", "dark"), [(1280, True), (390, False)])
async def test_every_page_of_judging_by_two_judges_is_sound(
    browser: Browser, address: str, run: str, width: int, dark: bool
) -> None:
    async with opened_page(browser, width, dark=dark) as page:
        await page.goto(f"{address}/judge")
        await page.get_by_label("workshop, seen").check()
        await page.get_by_role("button", name="Choose their pipelines").click()
        await page.get_by_label("Your name as a judge").fill("ann")
        await page.get_by_role("button", name="Make the session and begin").click()
        await page.wait_for_url("**/pair?*")
        session = page.url.partition("/pair")[0]
        for judge, grades in (("ann", "0120"), ("bob", "0210")):
            await page.goto(f"{session}/pair?judge={judge}")
            for at, grade in enumerate(grades, start=1):
                await Keys(page).grade(grade)
                await expect(page.get_by_text(f"{judge}: {at} graded")).to_be_visible()
        for path, title in (
            (session, "Judging workshop"),
            (f"{session}/pair?judge=cyd&order=impact", ""),
            (f"{session}/pair?judge=.cyd", "Bad input"),
            (f"{address}/judge", "Judging"),
        ):
            await page.goto(path)
            await expect(page.get_by_role("heading", level=1, name=title)).to_be_visible(timeout=SLOW_MS)
            await expect(page.get_by_role("heading", level=1, name="…")).to_have_count(0, timeout=SLOW_MS)
            if path == session:
                await page.locator("summary").first.click()
            await expect_sound(page)


async def test_keys_are_left_alone_where_the_reader_says_so_and_while_one_types(
    browser: Browser, address: str, run: str
) -> None:
    async with opened_page(browser, 1280) as page:
        await page.goto(f"{address}/judge?runs={run}")
        await page.get_by_label("Your name as a judge").fill("dot")
        await page.get_by_role("button", name="Make the session and begin").click()
        await expect(page.get_by_text("dot: 0 graded")).to_be_visible()
        for key in ("Control+1", "Alt+2", "4"):
            await page.keyboard.press(key)
        await page.get_by_label("Keys 0 to 2").uncheck()
        await page.locator("h1").click()
        await page.keyboard.press("1")
        await page.reload()
        await expect(page.get_by_label("Keys 0 to 2")).not_to_be_checked()
        await expect(page.get_by_text("dot: 0 graded")).to_be_visible()


async def test_without_script_pairs_are_judged_by_buttons(browser: Browser, address: str, run: str) -> None:
    async with opened_page(browser, 390, script=False) as page:
        await page.goto(f"{address}/judge?runs={run}")
        await page.get_by_label("Your name as a judge").fill("eve")
        await page.get_by_role("button", name="Make the session and begin").click()
        await page.get_by_role("button", name="partly").click()
        await page.get_by_role("button", name="skip").click()
        await page.get_by_role("button", name="undo").click()
        await expect(page.get_by_text("eve: 1 graded, 0 skipped")).to_be_visible()
        await expect(page.get_by_label("Keys 0 to 2")).to_be_hidden()


async def test_a_running_load_shows_its_progress_and_is_cancelled(
    browser: Browser, address: str, collection: Path
) -> None:
    async with opened_page(browser, 390) as page:
        await page.goto(f"{address}/new")
        await page.get_by_label("Experiment", exact=True).select_option("scifact-load")
        await page.get_by_label("Dataset").select_option(collection.name)
        await page.get_by_label("bm25", exact=True).check()
        await page.get_by_role("button", name="Start").click()
        await expect(page.locator("#progress")).to_contain_text("drives", timeout=SLOW_MS)
        await expect_sound(page)
        await page.get_by_text("Cancel this run").click()
        await page.get_by_role("button", name="Cancel the run").click()
        await expect(page.get_by_text("cancelled on request")).to_be_visible(timeout=SLOW_MS)
        await expect_sound(page)


@pytest.mark.parametrize("width", [1280, 390])
async def test_the_title_of_a_collection_is_shown_and_not_run(
    browser: Browser, address: str, collection: Path, width: int
) -> None:
    hostile = hostile_copy(collection)
    run = await finished_run(address, hostile, name="hostile", collection="workshop")
    async with opened_page(browser, width) as page:
        for path in ("/", f"/runs/{run}", f"/compare?runs={run}", f"/judge?runs={run}"):
            await page.goto(address + path)
            await expect(page.get_by_text(hostile.name).first).to_be_visible(timeout=SLOW_MS)
            await expect_sound(page)
