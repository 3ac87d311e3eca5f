"""Builds the page and the chart of an attribution. Pure."""

from collections.abc import Collection, Iterator

from evaluator.attribution.attribution_report import ATTRIBUTION, AttributionReport
from evaluator.attribution.losses import FATES
from evaluator.pages.html_page import Page
from evaluator.pages.page_blocks import Block, Caution, ChartImage, Heading, Prose, Sentence, Table
from evaluator.pages.plotted_svg import COLOURS, LIGHT, WIDTH, plotted_svg
from evaluator.pages.step_page import ShownStep
from evaluator.pages.time_breakdown import BAR_INCHES, LABELLED

FATES_CHART = "attribution/fates.svg"
# Colours of fates are in their order; they come again, paler.
PALE = 0.45
FATES_SAY = (
    "Every relevant document (grade 1 or more) of the queries has exactly one fate. The stage that moved a document "
    "out of the first hits is its cause, unless a later stage moved it back. `cut`: a cut removed it, or it was never "
    "among the first hits and no stage moved it down. In brackets: demotions by unjudged documents alone."
)
WATERFALL_SAYS = (
    "Each step is what a stage adds to the mean; the first step is the best leg alone. The steps add up to the "
    "figure of the whole pipeline."
)


def attribution_page(report: AttributionReport) -> Page:
    """Returns the page of an attribution alone."""
    title = f"Where relevant documents were lost: {report.experiment}, {report.dataset}, first {report.top} hits"
    svgs = {FATES_CHART: fates_chart(report)}
    return Page(title, attribution_blocks(report, svgs), svgs)


def attribution_blocks(report: AttributionReport, charts: Collection[str]) -> list[Block]:
    """Returns the parts of a page: what may mislead, the fates with their chart, the waterfall, legs alone.

    `charts`: paths of those that are there, within the run's folder.
    """
    arms = report.arms.items()
    steps = [(name, step) for name, arm in arms for step in arm.waterfall]
    waterfall = [[name, step.stage, f"{step.added:+z.4f}", f"{step.ndcg:.4f}"] for name, step in steps]
    legs = [[name, leg, f"{ndcg:.4f}"] for name, arm in arms for leg, ndcg in arm.legs.items()]
    return [
        *map(Caution, _warnings(report)),
        *map(Sentence, report.judgments.sentences()),
        Prose(FATES_SAY),
        Table("fates", f"Fates of the relevant documents, first {report.top} hits", fate_rows(report)),
        *([ChartImage(FATES_CHART, "Fates of relevant documents")] if FATES_CHART in charts else []),
        Prose(WATERFALL_SAYS),
        Table(
            "waterfall",
            f"{report.metric} after each stage",
            [["pipeline", "stage", "added", report.metric], *waterfall],
        ),
        Table("legs", f"{report.metric} of every leg alone", [["pipeline", "leg", report.metric], *legs]),
        Prose("attribution/<pipeline>.jsonl lists every document with its fate and ranks."),
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
            yield f"{name}: {arm.degraded} of {report.queries} answers were degraded: part of the pipeline did not run."
        if arm.otherwise:
            yield f"{name}: {arm.otherwise} of {report.queries} queries had another answer than in the run."


def fate_rows(report: AttributionReport) -> list[list[str]]:
    """Returns the table of fates, one row per pipeline."""
    shown = [fate for fate in FATES if any(arm.fates[fate] for arm in report.arms.values())]
    rows = [["pipeline", "relevant", *shown]]
    for name, arm in report.arms.items():
        cells = [
            f"{arm.fates[fate]} ({alone})" if (alone := arm.only_unjudged.get(fate)) else str(arm.fates[fate])
            for fate in shown
        ]
        rows.append([name, str(arm.relevant), *cells])
    return rows


def fates_chart(report: AttributionReport) -> str:
    """Draws shares of the relevant documents by fate, one bar per pipeline."""
    described = "; ".join(
        f"{name}: " + ", ".join(f"{fate} {count}" for fate, count in arm.fates.items() if count)
        for name, arm in report.arms.items()
    )
    title = f"What became of the relevant documents (first {report.top} hits)"
    fates = [fate for fate in FATES if any(arm.fates[fate] for arm in report.arms.values())]
    with plotted_svg(WIDTH, 1.3 + BAR_INCHES * len(report.arms) + 0.1 * len(fates), title, described) as plot:
        for row, (name, arm) in enumerate(report.arms.items()):
            done = 0.0
            for fate in fates:
                share = arm.fates[fate] / arm.relevant if arm.relevant else 0.0
                number = FATES.index(fate)
                plot.axes.barh(
                    row, share, 0.5, done, color=LIGHT[f"b{number % COLOURS}"], edgecolor=LIGHT["paper"],
                    alpha=1.0 if number < COLOURS else PALE, label=None if row else fate,
                )  # fmt: skip
                if share >= LABELLED:
                    plot.axes.text(done + share / 2, row, str(arm.fates[fate]), ha="center", va="center")
                done += share
            plot.axes.text(0.0, row - 0.3, name, va="bottom")
        plot.axes.set(xlim=(0.0, 1.0), ylim=(len(report.arms) - 0.6, -0.8), yticks=())
        plot.axes.xaxis.set_major_formatter("{x:.0%}")
        plot.axes.spines["left"].set_visible(False)
        plot.legend()
    return plot.svg
