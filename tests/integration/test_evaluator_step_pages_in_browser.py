"""The pages of an attribution and a replay, and the HTML files of a run, in a real Chromium: by click and from disk."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from evaluator.experiments.experiment import Experiment
from evaluator.runs.run_folder import RunFolder
from tests.support.attributed_runs import replayed_run
from tests.support.browser_pages import opened_page, overflow_px
from tests.support.evaluator_pages import evaluator_on_a_port, expect_sound, hostile_copy, write_part

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

# Tables of a page that paper does not show, folded ones too.
UNPRINTED = """
() => [...document.querySelectorAll("table")]
  .filter(one => !one.checkVisibility({contentVisibilityAuto: true}) || one.getBoundingClientRect().height === 0)
  .map(one => one.caption && one.caption.textContent)
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def replayed(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run with an attribution and a replay, over a collection with a script in its name."""
    place = tmp_path_factory.mktemp("evaluator")
    experiment = Experiment(
        name="replayed",
        dataset=str(hostile_copy(write_part(place / "workshop"))),
        collection="workshop",
        pipelines=("bm25", "hybrid-rerank"),
        warmup=1,
    )
    return await replayed_run(place / "runs", experiment)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def address(replayed: RunFolder) -> AsyncIterator[str]:
    async with evaluator_on_a_port(replayed.runs, replayed.runs) as address:
        yield address


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True), (1280, True), (390, False)])
async def test_where_documents_were_lost_and_what_a_replay_found_is_a_click_away_from_the_run(
    browser: Browser, address: str, replayed: RunFolder, width: int, dark: bool
) -> None:
    async with opened_page(browser, width, dark=dark) as page:
        await page.goto(f"{address}/runs/{replayed.name}")
        await expect_sound(page)
        await page.get_by_role("link", name="Where relevant documents were lost", exact=True).click()
        await expect(page.get_by_role("heading", level=1, name="Where relevant documents were lost")).to_be_visible()
        await expect(page.get_by_role("heading", level=1)).to_contain_text("<script>")
        await expect(page.get_by_role("img", name="What became of the relevant documents")).to_be_visible()
        await expect_sound(page)
        await page.get_by_role("link", name=replayed.name).click()
        await page.get_by_role("link", name="Replay of other settings").click()
        await expect(page.get_by_role("heading", level=1, name="Replay: replayed, <script>")).to_be_visible()
        tuned = page.get_by_role("group", name="Each pipeline as it is, and with its best settings")
        await expect(tuned).to_contain_text("→ reranker ")
        assert await tuned.evaluate("one => one.scrollWidth - one.clientWidth") == 0  # no figure is out of sight
        await expect(page.get_by_role("row", name="honest, on held-out queries")).to_be_visible()
        await expect(page.get_by_role("group", name="The chosen pipeline")).to_contain_text("name: replayed")
        await expect_sound(page)


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
async def test_the_first_screen_of_a_report_holds_verdict_chart_and_table(
    browser: Browser, replayed: RunFolder, width: int, height: int
) -> None:
    async with opened_page(browser, width, height=height) as page:
        await page.goto((replayed.path / "report.html").as_uri())
        tops = [0.0]
        for part in (page.locator(".lead"), page.locator("svg.chart").first, page.locator("table").first):
            box = await part.bounding_box()
            assert box is not None
            assert tops[-1] <= box["y"] < box["y"] + box["height"] <= height
            tops.append(box["y"])
        assert await page.evaluate("document.documentElement.scrollHeight") < 3 * height


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
@pytest.mark.parametrize(
    ("name", "charts", "pages"), [("report.html", 2, 2), ("attribution.html", 1, 1), ("replay.html", 0, 1)]
)
async def test_an_html_file_opens_from_disk_without_script_and_prints(
    browser: Browser, replayed: RunFolder, tmp_path: Path, name: str, charts: int, pages: int, width: int, dark: bool
) -> None:
    # Away from everything that lies beside it.
    file = Path(shutil.copy(replayed.path / name, tmp_path))
    async with opened_page(browser, width, dark=dark, script=False) as page:
        await page.goto(file.as_uri())
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert await page.locator("svg.chart").count() >= charts
        paper = await page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert paper == ("rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)")
        assert await overflow_px(page) == 0
        printed = await page.pdf(format="A4", prefer_css_page_size=True)
        assert printed.startswith(b"%PDF")
        assert pages <= printed.count(b"/Type /Page\n") + printed.count(b"/Type /Page ") <= 20
        await page.emulate_media(media="print", color_scheme="dark" if dark else "light")
        ink = await page.evaluate("getComputedStyle(document.body).color")
        assert ink == "rgb(0, 0, 0)"
        await expect(page.get_by_role("navigation")).to_be_hidden()
        assert await page.evaluate(UNPRINTED) == []
        hidden = await page.evaluate(
            "[...document.querySelectorAll('.scroll, .listing')]"
            ".filter(one => one.scrollHeight > one.clientHeight + 1).length"
        )
        assert hidden == 0
    async with opened_page(browser, width, dark=dark) as page:
        await page.goto(file.as_uri())
        await expect_sound(page)
