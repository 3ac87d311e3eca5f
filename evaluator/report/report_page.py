"""Composes the pages of a report from sections, as HTML, as Markdown and for the terminal."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from textwrap import shorten
from typing import Any

from evaluator.attribution.attribution_page import ATTRIBUTION_STEP
from evaluator.load.page.blocks import LOAD_STEP
from evaluator.pages.html_page import Page
from evaluator.pages.markdown_page import aligned
from evaluator.pages.page_blocks import Block, Bullets, Caution, ChartImage, Conclusion, FoldedBlocks, Prose, Table
from evaluator.pages.step_page import Figures, ShownStep, drawn_charts, write_charts, write_page
from evaluator.progress import shown
from evaluator.report import quality_section
from evaluator.report.latency_section import cost_blocks, latency_blocks, latency_charts
from evaluator.report.origin_section import origin_blocks
from evaluator.report.run_report import Report
from evaluator.runs.run_folder import RunFolder

CHARTS = "charts"
ALONE = "No recommendation: it needs two pipelines with a metric in common."
LINE = 100  # characters of a query in a terminal
# Those of which a report shows a section. Each fills the field of its name.
STEPS: tuple[ShownStep[Any], ...] = (LOAD_STEP, ATTRIBUTION_STEP)


def write_pages(folder: RunFolder, report: Report) -> None:
    """Writes report.md, report.html and the report's charts; those of an earlier report are removed."""
    write_charts(folder, CHARTS, report_charts(report))
    write_page(folder, "report", report_page(report, charts_of(folder)))


def report_charts(report: Report) -> dict[str, str]:
    """Draws the report's own charts, by path within the run's folder, where there is something to draw."""
    drawn = {**quality_section.quality_charts(report), **latency_charts(report)}
    return {path: svg for path, svg in drawn.items() if svg is not None}


def charts_of(folder: RunFolder) -> dict[str, str]:
    """Returns the charts of a run, the report's own and those of its steps, by path within its folder."""
    return drawn_charts(folder, CHARTS, *(step.name for step in STEPS))


def report_blocks(report: Report, charts: Collection[str] = ()) -> list[Block]:
    """Returns the page without its title. `charts`: paths of those that are there, within the run's folder."""
    return [
        *_first_screen(report, charts),
        *quality_section.quality_blocks(report, charts),
        *latency_blocks(report, charts),
        *cost_blocks(report),
        *_section(LOAD_STEP, report.load, charts),
        *_section(ATTRIBUTION_STEP, report.attribution, charts),
        *origin_blocks(report),
    ]


def report_page(report: Report, svgs: Mapping[str, str]) -> Page:
    """Returns the page of a report. `svgs`: its charts and those of its steps, by path within the run's folder."""
    queries = max(outcome.queries for outcome in report.pipelines.values())
    return Page(
        title=report.title,
        blocks=report_blocks(report, svgs),
        svgs=svgs,
        facts=(
            ("Documents", f"{report.counts.documents:,}"),
            ("Queries", f"{queries:,}{' (a sample)' if report.sample else ''}"),
            ("Engines", ", ".join(f"{name}: {engine}" for name, engine in report.engine.items()) or "imported"),
            ("Started", report.manifest.started_utc),
        ),
    )


def render_table(report: Report) -> str:
    """Renders one row per pipeline, as a Markdown table aligned for a terminal."""
    return aligned(quality_section.pipeline_rows(report))


def render_kinds(report: Report) -> Iterator[str]:
    """Yields for a terminal the kinds of queries, by one field of their metadata, and the worst losses, a line each."""
    for table in [*quality_section.kind_tables(report)][:1]:
        yield f"{table.caption}:\n\n{aligned(table.rows)}"
    if pair := report.examples:
        lost = [(one, shorten(shown(one.text), LINE, placeholder=" …")) for one in pair.examples]
        lines = (f"  {one.second:.4f} instead of {one.first:.4f}: {text}" for one, text in lost)
        yield "\n".join([quality_section.loss_words(report, pair), *lines])


def _first_screen(report: Report, charts: Collection[str]) -> Iterator[Block]:
    """Yields what to ship, or that the run is not valid; what is known against it; the chart and the first table."""
    if report.valid:
        advice = report.recommendation.text if report.recommendation else ALONE
        outcome, ended, reasons = advice.partition(". ")
        yield Conclusion((outcome + ended).rstrip(), reasons)
        notes = (*(() if report.times_hold else (report.status_line,)), *report.remarks)
        yield FoldedBlocks(f"{report.status} Notes: {len(notes)}", (Bullets(notes),)) if notes else Prose(report.status)
    else:
        yield Caution(report.status_line)
    if quality_section.QUALITY_LATENCY in charts:
        yield ChartImage(quality_section.QUALITY_LATENCY, "Quality against latency of each pipeline")
    yield Table("pipelines", "Quality, latency and cost of each pipeline", quality_section.overview_rows(report))


def _section(step: ShownStep[Figures], figures: Figures | None, charts: Collection[str]) -> Sequence[Block]:
    return () if figures is None else step.section(figures, charts)
