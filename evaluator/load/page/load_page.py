"""Writes load.md, the page of a load, and its charts `load/*.svg`, from load.json and the histograms beside it."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]  # ships no types

from evaluator.load.capacity import measured_rows
from evaluator.load.load_report import LoadReport
from evaluator.load.page.blocks import capacity_blocks, figure_blocks, path_blocks, percentile_blocks
from evaluator.load.page.capacity_section import CAPACITY_WORDS, capacity_charts, overview_rows
from evaluator.load.page.charts import Spectrum, drawn_share, rates_chart, spectrum_chart, stages_chart
from evaluator.load.page.cost_table import cost_blocks
from evaluator.load.page.tables import load_warnings
from evaluator.load.points.best_under import best_rows
from evaluator.load.points.figures import percentiles_ms, read_hlog
from evaluator.load.points.point_report import LoadPointReport
from evaluator.machine.machine_conditions import joined_conditions
from evaluator.pages.markdown_page import markdown_parts
from evaluator.pages.page_blocks import Block, Bullets, FoldedBlocks, Heading, Prose, Sentence, Table
from evaluator.runs.breakdown import FAILED_OF_A_KIND, SlowAnswer
from evaluator.runs.latency import MARKED
from evaluator.runs.run_folder import LOAD_PAGE, RunFolder, writable
from services.files.disk_writes import write_whole

SPECTRUM_POINTS = 160
# load.json lists the slowest 1 % of every point; a page of hundreds would not be read.
SLOWEST_SHOWN = 5
COUNTED = (
    "Times count from the planned send time to the last byte; a request without an answer counts with at least its "
    "deadline. nDCG@10 is the mean over requests: late, failed and dropped ones count as empty rankings. All rates ask "
    "one draw of queries in its order, so that a higher rate begins with the queries of a lower one. Degraded: share "
    "of the answers in time. Re-ranked: their mean share of candidates (–: the pipeline re-ranks none)."
)
STAGES = (
    "`<stage>.<part>` is what the services report of their own time. Share: of the latency, over all answers; stages "
    "that run at once overlap. The gap is network, HTTP handling and event loops."
)


def write_page(folder: RunFolder, report: LoadReport) -> None:
    """Writes the page and its charts; charts of an earlier load are removed."""
    charts = {**dict(_charts(folder.path, report)), **dict(capacity_charts(report.capacities))}
    for old in (folder.path / "load").glob("*.svg"):
        old.unlink()
    for name, content in charts.items():
        write_whole(writable(folder.path / "load" / name), content)
    folder.write_text(LOAD_PAGE, render_load_page(folder.experiment.name, report, charts))


def render_load_page(title: str, report: LoadReport, charts: Collection[str]) -> str:
    """Renders load.md. `charts`: their names in `load/`."""
    files = {f"load/{name}" for name in charts}
    warnings = tuple(load_warnings(report))
    blocks: list[Block] = [*([Bullets(warnings)] if warnings else []), *_capacities(report, files)]
    if report.points:
        blocks += _points(report, files)
    blocks += cost_blocks(report)
    blocks += _titled(
        "The slowest answers",
        f"The {SLOWEST_SHOWN} slowest of each point; load.json lists the slowest 1 %. The log of every service "
        "names the request_id.",
        _slowest(report),
    )
    blocks += _titled(
        "Failed requests",
        f"The first {FAILED_OF_A_KIND} of each kind of error and point. The log of every service that such a "
        "request reached names the request_id.",
        _failed(report),
    )
    blocks.append(Heading("How it was measured"))
    if report.points:
        blocks.append(_table(_measured(report)))
    blocks.append(
        Sentence(
            f"Seed {report.seed}. Plan: `{report.plan.model_dump_json(exclude_defaults=True)}`. Machine, versions, "
            "commit: [manifest.json](manifest.json). Every request: `load/*.jsonl`; all figures: "
            "[load.json](load.json)."
        )
    )
    return "\n\n".join([f"# Load: {title}", *markdown_parts(blocks)]) + "\n"


def _capacities(report: LoadReport, files: Collection[str]) -> Iterator[Block]:
    if not report.capacities:
        return
    yield Heading("Capacity")
    yield _table(overview_rows(report.capacities))
    yield Prose(f"Arrivals: {report.plan.arrivals}. {CAPACITY_WORDS}")
    for one in report.capacities:
        yield from capacity_blocks(one, files)
        yield FoldedBlocks("Every measured rate, in order", (_table(measured_rows(one)),))
    if report.points:
        yield Heading("All points")


def _points(report: LoadReport, files: Collection[str]) -> Iterator[Block]:
    yield from figure_blocks(report, files)
    yield Prose(COUNTED)
    if rows := best_rows(report.points, report.quality_differences, report.plan.rates):
        yield from _titled("The best pipeline under a bound (nDCG@10)", "", rows)
    yield Heading("Percentiles (ms)")
    yield from percentile_blocks(report, files)
    if len(stages := _stages(report)) > 1:
        yield Heading("Where the time goes (ms)")
        yield from path_blocks(report, files)
        yield from (Prose(STAGES), FoldedBlocks("All stages", (_table(stages),)))


def _titled(title: str, words: str, rows: list[list[str]]) -> Iterator[Block]:
    """Yields a table with its heading and its words, where it has a row."""
    if len(rows) > 1:
        yield Heading(title)
        if words:
            yield Prose(words)
        yield _table(rows)


def _table(rows: Sequence[Sequence[str]]) -> Table:
    """Returns a table of this page alone, which is in no file of its own."""
    return Table("", "", rows)


def _charts(folder: Path, report: LoadReport) -> Iterator[tuple[str, str]]:
    """Yields the name and the content of each chart but those of capacities."""
    rates = rates_chart(report)
    if rates is not None:
        yield "rates.svg", rates
    for traffic in dict.fromkeys(point.traffic for point in report.points):
        points = [point for point in report.points if point.traffic == traffic and drawn_share(point) > 0]
        if points:
            spectra = {point.pipeline: _spectrum(folder, point) for point in points}
            names = {point.traffic_in_words for point in points}
            name = names.pop() if len(names) == 1 else traffic  # a multiple of each pipeline's own capacity
            yield f"spectrum-{traffic}.svg", spectrum_chart(name, points, spectra)
    stages = stages_chart(report)
    if stages is not None:
        yield "stages.svg", stages


def _spectrum(folder: Path, point: LoadPointReport) -> Spectrum:
    """Returns the percentiles of a point, close together towards the tail."""
    histogram: HdrHistogram = read_hlog(folder / point.files["histogram"])
    beyond = 1 - drawn_share(point)
    shares = [1 - beyond ** (number / SPECTRUM_POINTS) for number in range(SPECTRUM_POINTS + 1)]
    return list(zip(shares, percentiles_ms(histogram, [share * 100 for share in shares]), strict=True))


def _stages(report: LoadReport) -> list[list[str]]:
    rows = [["pipeline", "traffic", "stage", "p50", "p95", "share", "answers"]]
    for point in report.points:
        gap = {} if point.gap_ms is None else {"(gap)": point.gap_ms}
        for stage, time in (*point.stages_ms.items(), *gap.items()):
            share = "–" if time.share is None else f"{time.share:z.1%}"
            figures = [time.p50.cell(2), time.p95.cell(2), share, str(time.n)]
            rows.append([point.pipeline, point.traffic_in_words, stage, *figures])
    return rows


def _slowest(report: LoadReport) -> list[list[str]]:
    rows = [["pipeline", "traffic", "query", "ms", "stages", "request_id"]]
    for point in report.points:
        for one in point.slowest[:SLOWEST_SHOWN]:
            rows.append([point.pipeline, point.traffic_in_words, one.query, one.latency_ms.cell(),
                         _stage_words(one), one.request_id or "–"])  # fmt: skip
    return rows


def _failed(report: LoadReport) -> list[list[str]]:
    rows = [["pipeline", "traffic", "query", "error", "request_id"]]
    for point in report.points:
        rows += [
            [point.pipeline, point.traffic_in_words, one.query, one.error, one.request_id or "–"]
            for one in point.failed
        ]
    return rows


def _stage_words(answer: SlowAnswer) -> str:
    return ", ".join(f"{stage} {ms.cell()}" for stage, ms in answer.timings_ms.items())


def _measured(report: LoadReport) -> list[list[str]]:
    rows = [
        [
            "pipeline",
            "traffic",
            "timing",
            "send lag p99 ms",
            "generator CPU",
            "priority",
            "foreign CPU",
            "steal",
            "throttling",
            "busy windows",
        ]
    ]
    for point in report.points:
        lag = point.generators.send_lag_p99_ms
        machine = joined_conditions(point.conditions)
        shares = (machine.foreign, machine.steal, machine.throttled)
        rows.append(
            [
                point.pipeline,
                point.traffic_in_words,
                "valid" if point.timing_valid else MARKED,
                "–" if lag is None else f"{lag:.2f}",
                f"{point.generators.cpu:.1%}",
                "real-time" if point.generators.real_time else "normal",
                *("–" if value is None else f"{value:.1%}" for value in shares),
                f"{machine.busy_windows} of {machine.windows}",
            ]
        )
    return rows
