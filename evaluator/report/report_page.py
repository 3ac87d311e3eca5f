"""Composes the pages of a report from sections, as HTML, as Markdown and for the terminal."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from evaluator.attribution.attribution_page import ATTRIBUTION_STEP
from evaluator.comparison.comparison_page import example_parts
from evaluator.load.page.blocks import LOAD_STEP
from evaluator.pages.html_page import Page
from evaluator.pages.markdown_page import aligned
from evaluator.pages.page_blocks import Block, Heading, Sentence
from evaluator.pages.step_page import Figures, ShownStep, drawn_charts, write_charts, write_page
from evaluator.report.latency_section import cost_blocks, latency_blocks, latency_charts
from evaluator.report.origin_section import origin_blocks
from evaluator.report.quality_section import pipeline_rows, quality_blocks, quality_charts
from evaluator.report.run_report import Report
from evaluator.runs.run_folder import RunFolder

CHARTS = "charts"
# Those of which a report shows a section. Each fills the field of its name.
STEPS: tuple[ShownStep[Any], ...] = (LOAD_STEP, ATTRIBUTION_STEP)


def write_pages(folder: RunFolder, report: Report) -> None:
    """Writes report.md, report.html and the report's charts; those of an earlier report are removed."""
    write_charts(folder, CHARTS, report_charts(report))
    write_page(folder, "report", report_page(report, charts_of(folder)))


def report_charts(report: Report) -> dict[str, str]:
    """Draws the report's own charts, by path within the run's folder, where there is something to draw."""
    drawn = {**quality_charts(report), **latency_charts(report)}
    return {path: svg for path, svg in drawn.items() if svg is not None}


def charts_of(folder: RunFolder) -> dict[str, str]:
    """Returns the charts of a run, the report's own and those of its steps, by path within its folder."""
    return drawn_charts(folder, CHARTS, *(step.name for step in STEPS))


def report_blocks(report: Report, charts: Collection[str] = ()) -> list[Block]:
    """Returns the page without its title. `charts`: paths of those that are there, within the run's folder."""
    return [
        *quality_blocks(report, charts),
        *_example_blocks(report),
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
        valid=report.valid,
        status=report.status,
        facts=(
            ("Documents", f"{report.counts.documents:,}"),
            ("Queries", f"{queries:,}{' (a sample)' if report.sample else ''}"),
            ("Pipelines", str(len(report.pipelines))),
            ("Engines", ", ".join(f"{name}: {engine}" for name, engine in report.engine.items()) or "imported"),
            ("Started", report.manifest.started_utc),
        ),
        marked=not report.times_hold,
    )


def render_table(report: Report) -> str:
    """Renders one row per pipeline, as a Markdown table aligned for a terminal."""
    return aligned(pipeline_rows(report))


def _example_blocks(report: Report) -> Iterator[Block]:
    """Yields the example queries, or why there are none."""
    if report.examples_reason is not None:
        yield Heading("Example queries")
        yield Sentence(f"None, because {report.examples_reason}.")
    if report.examples is None:
        return
    pair = report.examples
    yield Heading("Example queries")
    yield Sentence(f"Among those on which {pair.second} differs most from {pair.first} in {pair.metric}.")
    for number, example in enumerate(pair.examples, start=1):
        yield from example_parts(pair.first, pair.second, example, number)


def _section(step: ShownStep[Figures], figures: Figures | None, charts: Collection[str]) -> Sequence[Block]:
    return () if figures is None else step.section(figures, charts)
