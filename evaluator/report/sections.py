"""Lists the sections of a report, in the order of its pages. A report knows of a step what stands here."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from evaluator.attribution.attribution_page import ATTRIBUTION_STEP
from evaluator.load.page.blocks import LOAD_STEP
from evaluator.pages.page_blocks import Block
from evaluator.report.cost_section import cost_blocks
from evaluator.report.example_queries import example_query_blocks
from evaluator.report.latency_section import latency_blocks, latency_charts
from evaluator.report.origin_section import origin_blocks
from evaluator.report.quality_section import quality_blocks, quality_charts
from evaluator.report.report import Report
from evaluator.runs.run_folder import RunFolder
from evaluator.steps.shown_step import Figures, ShownStep


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the pages of a report.

    `blocks`: what it shows, with those charts that are there by path within the run's folder. `charts`: SVG by such a
    path, None where there is nothing to draw. `step`: whose file it shows; None: the report's own.
    """

    blocks: Callable[[Report, Collection[str]], Iterable[Block]]
    charts: Callable[[Report], Mapping[str, str | None]] = lambda report: {}
    step: ShownStep[Any] | None = None


def of_step(step: ShownStep[Figures], figures: Callable[[Report], Figures | None]) -> Section:
    """Returns the section of a step. `figures`: the field of a report that holds what the step has found."""

    def blocks(report: Report, charts: Collection[str]) -> Iterable[Block]:
        found = figures(report)
        return () if found is None else step.section(found, charts)

    return Section(blocks, step=step)


SECTIONS = (
    Section(quality_blocks, quality_charts),
    Section(lambda report, charts: example_query_blocks(report)),
    Section(latency_blocks, latency_charts),
    Section(cost_blocks),
    of_step(LOAD_STEP, lambda report: report.load),
    of_step(ATTRIBUTION_STEP, lambda report: report.attribution),
    Section(origin_blocks),
)
STEPS = tuple(section.step for section in SECTIONS if section.step is not None)


def report_blocks(report: Report, charts: Collection[str] = ()) -> list[Block]:
    """Returns the page without its title. `charts`: paths of those that are there, within the run's folder."""
    return [block for section in SECTIONS for block in section.blocks(report, charts)]


def report_charts(report: Report) -> dict[str, str]:
    """Returns SVG by path within the run's folder, of the report's own charts that there is something to draw for."""
    drawn = [item for section in SECTIONS for item in section.charts(report).items()]
    return {path: svg for path, svg in drawn if svg is not None}


def step_charts(folder: RunFolder) -> dict[str, str]:
    """Returns the charts that steps have drawn, by path within the run's folder."""
    return {path: svg for step in STEPS for path, svg in step.charts(folder).items()}
