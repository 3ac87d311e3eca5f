"""Builds the page and the chart of an attribution. Pure."""

from collections.abc import Collection, Iterator, Sequence

from evaluator.attribution.attribution_report import ATTRIBUTION, AttributionReport
from evaluator.attribution.losses import FATES
from evaluator.pages.page_blocks import Block, Caution, ChartImage, Heading, Prose, Sentence, Table
from evaluator.pages.step_page import StepPage
from evaluator.pages.svg_chart import COLOURS, Drawing, Scale, text_width
from evaluator.steps.shown_step import ShownStep

WIDTH = 860.0
FATES_CHART = "attribution/fates.svg"
# Colours of fates are in their order; they come again, paler.
PALE = 0.45
FATES_SAY = (
    "Every relevant document (grade 1 or more) of the queries has exactly one fate. The stage that moved a document "
    "out of the first hits is its cause, unless a later stage moved it back. `cut`: a cut removed it, or no stage had "
    "it among the first hits and none set it lower. In brackets: demotions where all documents that rose above it are "
    "unjudged."
)
WATERFALL_SAYS = (
    "Each step is what the stage added to the mean; the first is the best leg alone. They add up to the answer's "
    "figure."
)


def attribution_page(report: AttributionReport) -> StepPage:
    """Returns the page of an attribution alone."""
    title = f"Where relevant documents were lost: {report.experiment}, {report.dataset}, first {report.top} hits"
    svgs = {FATES_CHART: fates_chart(report)}
    return StepPage("attribution", title, attribution_blocks(report, svgs), svgs)


def attribution_blocks(report: AttributionReport, charts: Collection[str]) -> list[Block]:
    """Returns the parts of a page: what may mislead, the fates with their chart, the waterfall, legs alone.

    `charts`: paths of those that are there, within the run's folder.
    """
    blocks: list[Block] = [Caution(line) for line in _warnings(report)]
    return [
        *blocks,
        *map(Sentence, report.judgments.sentences()),
        Prose(FATES_SAY),
        Table("fates", f"Fates of the relevant documents, first {report.top} hits", fate_rows(report)),
        *([ChartImage(FATES_CHART, "Fates of relevant documents")] if FATES_CHART in charts else []),
        Prose(WATERFALL_SAYS),
        Table("waterfall", f"{report.metric} after each stage", waterfall_rows(report)),
        Table("legs", f"{report.metric} of every leg alone", leg_rows(report)),
        Prose("Every document with its fate and its ranks: attribution/<pipeline>.jsonl."),
    ]


def _section(report: AttributionReport, charts: Collection[str]) -> list[Block]:
    title = f"Where relevant documents were lost (first {report.top} hits)"
    return [Heading(title), *attribution_blocks(report, charts)]


ATTRIBUTION_STEP = ShownStep(
    "attribution", ATTRIBUTION, AttributionReport, _section, attribution_page, "Where relevant documents were lost"
)


def _warnings(report: AttributionReport) -> Iterator[str]:
    if report.failed:
        yield f"{report.failed} requests for deep legs or scores failed: documents may count as `in no leg`."
    for name, arm in report.arms.items():
        if arm.lost:
            yield f"{name}: {arm.lost} of {report.queries} queries had no answer."
        if arm.degraded:
            yield f"{name}: {arm.degraded} of {report.queries} answers were degraded: not this pipeline's figures."
        if arm.otherwise:
            yield f"{name}: {arm.otherwise} of {report.queries} queries were answered otherwise than in the run."


def fate_rows(report: AttributionReport) -> list[list[str]]:
    """Returns the table of fates, a pipeline a row."""
    shown = [fate for fate in FATES if any(arm.fates[fate] for arm in report.arms.values())]
    rows = [["pipeline", "relevant", *shown]]
    for name, arm in report.arms.items():
        cells = [
            f"{arm.fates[fate]} ({alone})" if (alone := arm.only_unjudged.get(fate)) else str(arm.fates[fate])
            for fate in shown
        ]
        rows.append([name, str(arm.relevant), *cells])
    return rows


def waterfall_rows(report: AttributionReport) -> list[list[str]]:
    """Returns the steps of every pipeline, a step a row."""
    rows = [["pipeline", "stage", "added", report.metric]]
    for name, arm in report.arms.items():
        rows += [[name, step.stage, f"{step.added:+z.4f}", f"{step.ndcg:.4f}"] for step in arm.waterfall]
    return rows


def leg_rows(report: AttributionReport) -> list[list[str]]:
    """Returns the figures of legs alone."""
    rows = [["pipeline", "leg", report.metric]]
    for name, arm in report.arms.items():
        rows += [[name, leg, f"{ndcg:.4f}"] for leg, ndcg in arm.legs.items()]
    return rows


def fates_chart(report: AttributionReport) -> str:
    """Draws shares of the relevant documents by fate, a bar a pipeline."""
    described = "; ".join(
        f"{name}: " + ", ".join(f"{fate} {count}" for fate, count in arm.fates.items() if count)
        for name, arm in report.arms.items()
    )
    row, top = 30.0, 48.0
    fates = [fate for fate in FATES if any(arm.fates[fate] for arm in report.arms.values())]
    legend = _legend(fates)
    height = top + row * len(report.arms) + 62 + 22 * (1 + max(line for _, line in legend))
    drawing = Drawing(WIDTH, height, f"What became of the relevant documents (first {report.top} hits)", described)
    left = 24 + max(text_width(name) for name in report.arms)
    x = Scale(0.0, 1.0, left, WIDTH - 24)
    for number, (name, arm) in enumerate(report.arms.items()):
        y = top + row * number
        drawing.text(left - 8, y + 15, name, anchor="end")
        share = 0.0
        for fate in fates:
            part = arm.fates[fate] / arm.relevant if arm.relevant else 0.0
            start, end = x.at(share), x.at(share + part)
            look, opacity = _fill(fate)
            drawing.rectangle(start, y, end - start, row - 8, look, opacity)
            label = str(arm.fates[fate])
            if end - start > text_width(label) + 6:
                drawing.text((start + end) / 2, y + 15, label, anchor="middle")
            share += part
    bottom = top + row * len(report.arms) + 4
    drawing.horizontal_axis(x, bottom, [(tick / 4, f"{tick / 4:.0%}") for tick in range(5)], "")
    for fate, (column, line) in zip(fates, legend, strict=True):
        look, opacity = _fill(fate)
        y = bottom + 36 + 22 * line
        drawing.rectangle(column, y, 12, 12, look, opacity)
        drawing.text(column + 18, y + 10, fate)
    return drawing.svg()


def _fill(fate: str) -> tuple[str, float]:
    number = [str(one) for one in FATES].index(fate)
    return f"part b{number % COLOURS}", 1.0 if number < COLOURS else PALE


def _legend(fates: Sequence[str]) -> list[tuple[float, int]]:
    """Returns column and line of every entry."""
    places, column, line = [], 16.0, 0
    for fate in fates:
        width = 18 + text_width(fate) + 22
        if column + width > WIDTH and column > 16:
            column, line = 16.0, line + 1
        places.append((column, line))
        column += width
    return places
