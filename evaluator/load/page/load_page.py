"""Writes load.md, the page of a load, and its charts `load/*.svg`, from load.json and the histograms beside it."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]  # ships no types

from evaluator.load.capacity import measured_rows
from evaluator.load.load_report import LoadReport
from evaluator.load.page.blocks import capacity_blocks, capacity_file, figure_blocks, path_blocks, percentile_blocks
from evaluator.load.page.charts import Spectrum, capacity_chart, drawn_share, rates_chart, spectrum_chart, stages_chart
from evaluator.load.page.tables import load_warnings, measured_point_rows, overview_rows
from evaluator.load.points.figures import percentiles_ms, read_hlog
from evaluator.load.points.point_report import LoadPointReport
from evaluator.pages.cost_tables import process_rows
from evaluator.pages.markdown_page import render_markdown
from evaluator.pages.page_blocks import Block, Bullets, FoldedBlocks, Heading, Prose, Sentence, Table
from evaluator.pages.step_page import write_charts
from evaluator.pages.time_breakdown import SLOWEST, STAGES, slowest_rows, stage_rows
from evaluator.runs.breakdown import FAILED_OF_A_KIND
from evaluator.runs.run_folder import LOAD_PAGE, RunFolder

SPECTRUM_POINTS = 160
# load.json lists the slowest 1 % of every point; a page of hundreds would not be read.
SLOWEST_SHOWN = 5
SLOWEST_WORDS = (
    f"The {SLOWEST_SHOWN} slowest of each point; load.json lists the slowest 1 %. Every service logs the request_id."
)
FAILED_WORDS = (
    f"The first {FAILED_OF_A_KIND} of each kind of error and point. Every service that such a request reached "
    "logs the request_id."
)
CAPACITY_WORDS = (
    "The capacity is the highest rate found at which at most 1 % of the requests took longer than the bound, and at "
    "most 1 % were lost, late or degraded. The knee is the swept rate with the highest ratio of answers in time "
    "per second to p95. At multiples of the capacity: answers in time per second (in brackets: their nDCG@10 per "
    "second). [capacity.json](capacity.json) has all figures."
)
COUNTED = (
    "Latency counts from the planned send time to the last byte; without an answer, at least the deadline counts. "
    "nDCG@10 is the mean over requests; late, failed and dropped ones count as empty rankings. All rates send the same "
    "sequence of queries; a higher rate gets further in it. Degraded: share of the answers in time. Re-ranked: mean "
    "share of the candidates that these answers re-ranked (–: the pipeline has no re-ranker)."
)
STAGE_WORDS = (
    "`<stage>.<part>` is time that a service reports. Share: of the latency, over all answers; parallel stages "
    "overlap. The gap is network, HTTP handling and event loops."
)
COSTS = (
    "CPU milliseconds per request: mean over all requests sent, with the warm-up. Background work is included; at a "
    "low rate it is a large part. Memory: resident set after the last point; for Elasticsearch, the memory that "
    "the JVM committed."
)


def write_page(folder: RunFolder, report: LoadReport) -> None:
    """Writes the page and its charts; charts of an earlier load are removed."""
    charts = {f"load/{name}": svg for name, svg in _charts(folder.path, report) if svg is not None}
    write_charts(folder, "load", charts)
    folder.write_text(LOAD_PAGE, render_load_page(folder.experiment.name, report, charts))


def render_load_page(title: str, report: LoadReport, charts: Collection[str]) -> str:
    """Renders load.md. `charts`: paths of those that are there, within the run's folder."""
    return render_markdown(f"Load: {title}", _blocks(report, charts))


def _blocks(report: LoadReport, charts: Collection[str]) -> Iterator[Block]:
    if warnings := tuple(load_warnings(report)):
        yield Bullets(warnings)
    if report.capacities:
        yield from _capacities(report, charts)
    if report.points:
        yield from _points(report, charts)
    if costs := [point.cost for point in report.points if point.cost is not None]:
        yield from _titled("Cost", COSTS, process_rows(costs))
    points = report.points
    slow = ([*_names(point), *row] for point in points for row in slowest_rows(point.slowest[:SLOWEST_SHOWN]))
    yield from _titled("The slowest answers", SLOWEST_WORDS, [["pipeline", "traffic", *SLOWEST], *slow])
    failed = [
        [*_names(point), answer.query, answer.error, answer.request_id or "–"]
        for point in points
        for answer in point.failed
    ]
    header = ["pipeline", "traffic", "query", "error", "request_id"]
    yield from _titled("Failed requests", FAILED_WORDS, [header, *failed])
    yield Heading("How it was measured")
    if points:
        yield _table(measured_point_rows(report))
    yield Sentence(
        f"Seed {report.seed}. Plan: `{report.plan.model_dump_json(exclude_defaults=True)}`. Machine, versions, "
        "commit: [manifest.json](manifest.json). Every request: `load/*.jsonl`; all figures: [load.json](load.json)."
    )


def _capacities(report: LoadReport, charts: Collection[str]) -> Iterator[Block]:
    yield Heading("Capacity")
    yield _table(overview_rows(report.capacities))
    yield Prose(f"Arrivals: {report.plan.arrivals}. {CAPACITY_WORDS}")
    for capacity in report.capacities:
        yield from capacity_blocks(capacity, charts)
        yield FoldedBlocks("Every measured rate, in order", (_table(measured_rows(capacity)),))
    if report.points:
        yield Heading("All points")


def _points(report: LoadReport, charts: Collection[str]) -> Iterator[Block]:
    yield from figure_blocks(report, charts)
    yield Prose(COUNTED)
    yield Heading("Percentiles (ms)")
    yield from percentile_blocks(report, charts)
    stages = [[*_names(point), *row] for point in report.points for row in stage_rows(point.stages_ms, point.gap_ms)]
    if stages:
        yield Heading("Where the time goes (ms)")
        yield from path_blocks(report, charts)
        table = _table([["pipeline", "traffic", *STAGES], *stages])
        yield from (Prose(STAGE_WORDS), FoldedBlocks("All stages", (table,)))


def _names(point: LoadPointReport) -> tuple[str, str]:
    return point.pipeline, point.traffic_in_words


def _titled(title: str, words: str, rows: Sequence[Sequence[str]]) -> Iterator[Block]:
    """Yields a table with its heading and its words, where it has a row."""
    if len(rows) > 1:
        yield Heading(title)
        yield Prose(words)
        yield _table(rows)


def _table(rows: Sequence[Sequence[str]]) -> Table:
    """Returns a table of this page alone."""
    return Table("", "", rows)


def _charts(folder: Path, report: LoadReport) -> Iterator[tuple[str, str | None]]:
    """Yields the name and the content of each chart; None where there is nothing to draw."""
    yield "rates.svg", rates_chart(report)
    for traffic in dict.fromkeys(point.traffic for point in report.points):
        points = [point for point in report.points if point.traffic == traffic and drawn_share(point) > 0]
        if points:
            spectra = {point.pipeline: _spectrum(folder, point) for point in points}
            names = {point.traffic_in_words for point in points}
            name = names.pop() if len(names) == 1 else traffic  # a multiple of each pipeline's own capacity
            yield f"spectrum-{traffic}.svg", spectrum_chart(name, points, spectra)
    yield "stages.svg", stages_chart(report)
    for capacity in report.capacities:
        yield capacity_file(capacity.pipeline), capacity_chart(capacity)


def _spectrum(folder: Path, point: LoadPointReport) -> Spectrum:
    """Returns the percentiles of a point, close together towards the tail."""
    histogram: HdrHistogram = read_hlog(folder / point.files["histogram"])
    beyond = 1 - drawn_share(point)
    shares = [1 - beyond ** (number / SPECTRUM_POINTS) for number in range(SPECTRUM_POINTS + 1)]
    return list(zip(shares, percentiles_ms(histogram, [share * 100 for share in shares]), strict=True))
