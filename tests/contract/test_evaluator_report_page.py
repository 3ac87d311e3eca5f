"""report.html and what lies beside it, of runs against a stub of the gateway."""

import asyncio
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from evaluator.metrics.verdict import PairedComparison
from evaluator.pages.html_page import Page, render_standalone
from evaluator.pages.markdown_page import render_markdown
from evaluator.pages.page_blocks import Caution, ChartImage, Heading
from evaluator.report.quality_section import quality_latency_chart
from evaluator.report.report_page import report_blocks, report_charts, report_page
from evaluator.report.run_report import Report
from evaluator.runs.run_folder import RunFolder
from tests.support.charted_blocks import charts_without_table, flat, tables_of
from tests.support.gateway_stub import GatewayStub
from tests.support.small_runs import evaluated, planned
from tests.support.svg_reading import texts

pytestmark = pytest.mark.usefixtures("laid_out")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Report, RunFolder]:
    """A run that tests only read."""
    place = tmp_path_factory.mktemp("run")
    return asyncio.run(evaluated(GatewayStub(), planned(place), place))


def page_of(folder: RunFolder) -> str:
    return (folder.path / "report.html").read_text(encoding="utf-8")


def with_timing_valid(found: Report, *reasons: str) -> Report:
    """Returns a report whose times hold; with reasons, do not. Every time in it carries that (`carry_validity`)."""
    data = found.model_dump()
    for outcome in data.get("pipelines", {}).values():
        outcome["latency_ms"]["valid"] = not reasons
    return Report.model_validate({**data, "timing_valid": not reasons, "timing_reasons": reasons})


class Tags(HTMLParser):
    """Collects the tags of a page and the addresses that they load."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loaded: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loaded += [str(value) for name, value in attrs if name in ("src", "srcset", "data", "action")]


def test_the_page_loads_nothing_and_runs_no_script(run: tuple[Report, RunFolder]) -> None:
    found = Tags(page_of(run[1]))
    assert found.loaded == []
    assert not {"script", "link", "iframe", "object", "img"} & set(found.tags)
    assert "default-src 'none'" in page_of(run[1])


def test_every_cell_and_every_sentence_of_the_markdown_page_stands_in_the_html_page(
    run: tuple[Report, RunFolder],
) -> None:
    report, folder = run
    page = page_of(folder)
    for block in report_blocks(report, report_charts(report)):
        rows = getattr(block, "rows", ())
        for cell in (cell.strip("`") for row in rows for cell in row if cell):
            assert cell.replace("&", "&amp;").replace("'", "&#39;").replace('"', "&#34;") in page
    headings = re.findall(r"^## (.*)$", render_markdown(report.title, report_blocks(report)), re.MULTILINE)
    assert [re.sub("<[^>]+>", "", title) for title in re.findall("<h2[^>]*>(.*?)</h2>", page)] == headings


def test_the_charts_are_files_of_their_own_and_the_same_as_those_in_the_page(run: tuple[Report, RunFolder]) -> None:
    folder = run[1]
    assert {path.name for path in (folder.path / "charts").iterdir()} >= {"differences.svg", "stages.svg"}
    for path in (folder.path / "charts").iterdir():
        svg = path.read_text(encoding="utf-8")
        assert texts(svg)
        assert "<style>" in svg
        assert all(f">{text}</text>" in page_of(folder) for text in texts(svg) if text.isascii() and "'" not in text)
    assert "![Where the time goes](charts/stages.svg)" in (folder.path / "report.md").read_text(encoding="utf-8")


def test_every_chart_of_the_page_has_a_table_of_what_it_shows_beside_it(run: tuple[Report, RunFolder]) -> None:
    report = with_timing_valid(run[0])
    blocks = report_blocks(report, report_charts(report))
    assert [block.path for block in flat(blocks) if isinstance(block, ChartImage)] == list(report_charts(report))
    assert charts_without_table(blocks) == []
    tables = {table.name: table.rows for table in tables_of(blocks)}
    verdict = report.pipelines["hybrid"].against_first
    assert isinstance(verdict, PairedComparison)
    assert tables["differences"][1][:6] == [
        "hybrid", "bm25", "4", str(verdict.wins), str(verdict.ties), str(verdict.losses),
    ]  # fmt: skip
    path = [float(row[2]) for row in tables["path"] if row[0] == "hybrid"]
    assert sum(path) == pytest.approx(sum(report.pipelines["hybrid"].path_ms.values()), abs=0.1)


def test_all_but_the_first_screen_is_folded_and_warns_while_it_is_closed(run: tuple[Report, RunFolder]) -> None:
    report = run[0]
    page = report_page(report, report_charts(report))
    warned = Page(page.title, [*page.blocks, Heading("Load"), Caution("too slow")], page.svgs, page.facts)
    first, *folded = render_standalone(warned).partition("<main")[2].split('<details class="part">')
    assert len(folded) == len(warned.sections) - 1
    assert first.count("<table>") == 1
    assert ["warnings: 1" in section for section in folded] == [*[False] * (len(folded) - 1), True]


async def test_a_run_that_is_not_valid_says_so_before_all_else_and_recommends_nothing(tmp_path: Path) -> None:
    stub = GatewayStub(degraded_queries={"red bell"})
    report, folder = await evaluated(stub, planned(tmp_path), tmp_path)
    page = page_of(folder)
    assert "Quality: NOT VALID" in page
    assert 0 < page.index('class="caution"') < page.index("<table")
    assert page.index("were DEGRADED") < page.index("<details")  # no reason is folded
    assert (len(report.warnings) >= 2, 'class="lead"' in page, "Ship " in page) == (True, False, False)


def test_quality_against_latency_names_each_pipeline_and_marks_times_that_do_not_hold(
    run: tuple[Report, RunFolder],
) -> None:
    valid = with_timing_valid(run[0])
    shown = texts(quality_latency_chart(valid))
    assert "nDCG@10 against latency" in shown
    assert {"bm25", "hybrid"} <= {*shown}
    assert not [text for text in shown if "?" in text]
    doubtful = with_timing_valid(run[0], "it was busy")
    assert any("?" in text for text in texts(quality_latency_chart(doubtful)))
    pages = [render_standalone(report_page(report, report_charts(report))) for report in (valid, doubtful)]
    assert ["Times: marked with ?. Notes: " in page for page in pages] == [False, True]
    assert "Times: marked with ?, because it was busy." in pages[1]


def test_a_page_leads_with_the_recommendation_and_the_chart(run: tuple[Report, RunFolder]) -> None:
    report = with_timing_valid(run[0])
    page = render_markdown(report.title, report_blocks(report, report_charts(report)))
    parts = (
        f"# {report.title}\n\n**Ship ",
        "Quality: valid. Times: valid.",
        "charts/quality-latency.svg",
        "| pipeline | nDCG@10 | p50 ms | p95 ms | CPU ms |",
        "\n## ",
    )
    places = [page.index(part) for part in parts]
    assert places == sorted(places)


def test_a_report_without_the_newer_fields_has_a_page_without_their_charts(run: tuple[Report, RunFolder]) -> None:
    content = json.loads(run[0].model_dump_json())
    for outcome in content["pipelines"].values():
        del outcome["differences"], outcome["path_ms"]
    old = Report.model_validate(content)
    assert "charts/differences.svg" not in report_charts(old)
    assert "<h1>" in render_standalone(report_page(old, report_charts(old)))
