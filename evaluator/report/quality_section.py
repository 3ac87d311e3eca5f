"""Shows the quality of the pipelines in a report: figures, differences from the baseline, added judgments. Pure."""

from collections.abc import Collection, Iterable, Iterator

from evaluator.comparison.comparison_page import example_parts
from evaluator.comparison.differences_chart import PairDifferences, differences_chart
from evaluator.comparison.examples import PairExamples
from evaluator.metrics.metric_table import parse_metric
from evaluator.pages.cost_tables import number_cell
from evaluator.pages.page_blocks import Block, ChartImage, Heading, Prose, Sentence, Table, Verdict, filled
from evaluator.pages.plotted_svg import WIDTH, chart_number, logarithmic, plotted_svg, series_look
from evaluator.report.run_report import Report
from evaluator.runs.latency import DOUBTFUL
from evaluator.steps.quality_figures import CHANGE_METRICS, JudgmentChange

QUALITY_LATENCY = "charts/quality-latency.svg"
DIFFERENCES = "charts/differences.svg"
# The first of the experiment's metrics stand in the first table, the others in the second.
COLUMNS = 5
CHART_METRIC = "nDCG@10"
MOST_SERIES = 8
# Behind the name of a pipeline in whose figures a model was tested on a set of its training.
SAW_DATASET = "trained on this set"
FIGURES = (
    "Queries: number in the mean; lost ones and those without hits count as an empty ranking. Worst, expected, best: "
    "the mean if tied documents are in their worst, random or best order. Moved: queries whose value depends on it. "
    "Unjudged: share of the hits without a judgment, down to the metric's depth."
)
ERRORS = (
    "All pairs of pipelines are tested together, at 5 %. Simulated on four collections with equal pipelines, the best "
    "of five was excluded in 1 to 3 % of the runs of 100 queries, in 2 to 5 % of those of 50. No method keeps its "
    "level where few queries are won by much (Bahadur and Savage 1956): of 50 queries, 14 % where 4 % of them are won."
)
ADDED = (
    "All quality figures use the dataset's judgments and those of these files, which win where both exist. Before: the "
    "dataset's judgments alone."
)


def quality_charts(report: Report) -> dict[str, str | None]:
    """Draws quality against latency, and the differences."""
    return {QUALITY_LATENCY: quality_latency_chart(report), DIFFERENCES: differences_chart(pair_differences(report))}


def quality_latency_chart(report: Report) -> str | None:
    """Draws nDCG@10 (or the first metric measured) with its interval against p50, one mark per pipeline, its name
    beside it. Of more than MOST_SERIES it draws those of the highest metric.

    Times that do not hold are marked, and drawn dashed and hollow. None where times were not measured or not checked.
    """
    measured = next(iter(report.pipelines.values())).quality
    metric = CHART_METRIC if CHART_METRIC in measured else next(iter(measured), None)
    if report.timing_valid is None or metric is None:
        return None
    points = [
        (name, p50, value, outcome.intervals.get(metric) or (value, value))
        for name, outcome in report.pipelines.items()
        if (p50 := outcome.latency_ms.p50.unchecked_ms) is not None
        and (value := outcome.quality.get(metric)) is not None
    ]
    if not points:
        return None
    points = sorted(sorted(points, key=lambda point: -point[2])[:MOST_SERIES], key=lambda point: point[1])
    label, doubt = parse_metric(metric).label(report.depth), "" if report.timing_valid else DOUBTFUL
    described = "; ".join(
        f"{name}: {label} {value:.4f} (95 % interval {_interval_words(within)}), p50 {chart_number(p50)}{doubt} ms"
        for name, p50, value, within in points
    )
    with plotted_svg(WIDTH, 3.8, f"{label} against latency", described) as plot:
        axes = plot.axes
        low, high = points[0][1], points[-1][1]
        for number, (name, p50, value, within) in enumerate(points):
            look = series_look(number, held=not doubt)
            axes.plot([p50, p50], within, **look | {"marker": "_"}, linewidth=1)
            axes.plot(p50, value, **look)
            # To the side where there is room; neighbours above and below their marks by turns.
            left = p50 > (low * high) ** 0.5
            side, above = ("right", -5) if left else ("left", 5), 4 if number % 2 else -11
            axes.annotate(
                name, (p50, value), (side[1], above), textcoords="offset points", ha=side[0], color=look["color"]
            )
        if high > 5 * low > 0:
            logarithmic(axes.xaxis, low / 1.4, high * 1.25)
        else:
            axes.set_xlim(0, (high or 1.0) * 1.15)
        axes.margins(y=0.15)
        axes.grid(axis="y")
        axes.set_ylabel(f"{label}, 95 % interval")
        note = f"\ndashed, {DOUBTFUL}: times do not hold" if doubt else ""
        axes.set_xlabel(f"p50 in ms, one query at a time: further left is faster{note}")
    return plot.svg


def quality_blocks(report: Report, charts: Collection[str]) -> Iterator[Block]:
    """Yields the comparison with the baseline, kinds of queries, the worst losses, and all figures."""
    if len(report.pipelines) > 1:
        yield Heading(f"Each pipeline compared with {report.set_against}")
        yield Prose(ERRORS)
    yield from map(Verdict, verdicts(report))
    differ = f"Differences from {report.set_against}, query by query"
    if DIFFERENCES in charts:
        yield ChartImage(DIFFERENCES, differ)
    yield from filled(Table("differences", differ, difference_rows(pair_differences(report))))
    yield from _kind_blocks(report)
    yield Heading("All metrics, lost and degraded answers")
    yield Table("all-metrics", "Quality, latency and losses of each pipeline", pipeline_rows(report))
    yield Prose(
        "Quality: means over the judged queries that were sent; a lost query counts as 0. "
        f"Rankings have up to {report.depth} hits. " + _what_was_timed(report)
    )
    if report.added_judgments is not None:
        yield from _judgment_blocks(report.added_judgments)
    yield Heading("Every metric with its interval and number of queries")
    yield Prose(FIGURES)
    yield Table("figures", "Each metric of each pipeline, with interval, bounds and denominators", figure_rows(report))


def verdicts(report: Report) -> list[str]:
    """Returns the intervals of the first metric, and the comparison of every pipeline with the baseline."""
    sentences = [outcome.against_first.sentence for outcome in report.pipelines.values() if outcome.against_first]
    metric = next(iter(next(iter(report.pipelines.values())).intervals), None)
    if metric is None:
        return sentences
    intervals = "; ".join(
        f"{name} {_interval_words(within)}"
        for name, outcome in report.pipelines.items()
        if (within := outcome.intervals.get(metric))
    )
    if not intervals:
        return sentences
    return [f"95 % intervals of {parse_metric(metric).label(report.depth)}: {intervals}.", *sentences]


def overview_rows(report: Report) -> list[list[str]]:
    """Returns one row per pipeline: the first metric, latency, CPU per query."""
    costs = [outcome.cost.cpu_ms if outcome.cost else None for outcome in report.pipelines.values()]
    cells = ["CPU ms", *map(number_cell, costs)]
    return [[*row[:-5][:2], *row[-5:-3], cell] for row, cell in zip(pipeline_rows(report), cells, strict=True)]


def pipeline_rows(report: Report) -> list[list[str]]:
    """Returns one row per pipeline: quality, latency, losses."""
    metrics = list(next(iter(report.pipelines.values())).quality)[:COLUMNS]
    labels = [parse_metric(metric).label(report.depth) for metric in metrics]
    rows = [["pipeline", *labels, "p50 ms", "p95 ms", "queries", "lost", "degraded"]]
    for name, outcome in report.pipelines.items():
        remarks = [outcome.preset, SAW_DATASET if outcome.saw_dataset else None]
        known = ", ".join(filter(None, remarks))
        label = f"{name} ({known})" if known else name
        latency = outcome.latency_ms
        rows.append(
            [label]
            + [_figure(outcome.quality.get(metric)) for metric in metrics]
            + [time.cell() for time in (latency.p50, latency.p95)]
            + [str(outcome.queries), str(outcome.errors), str(outcome.degraded)]
        )
    return rows


def figure_rows(report: Report) -> list[list[str]]:
    """Returns each metric of each pipeline: mean, interval, bounds over ties, denominators."""
    rows = [
        ["pipeline", "metric", "mean", "95 % interval", "worst", "expected", "best", "moved", "queries", "lost",
         "no hits", "self excluded", "unjudged"]
    ]  # fmt: skip
    for name, outcome in report.pipelines.items():
        for metric, figure in outcome.figures.items():
            ties, interval = figure.ties, outcome.intervals.get(metric)
            bounds = (ties.worst, ties.expected, ties.best) if ties else (None, None, None)
            rows.append(
                [name, figure.label, _figure(figure.mean), _interval_words(interval) if interval else "–"]
                + [*map(_figure, bounds)]
                + [str(ties.queries) if ties else "–"]
                + [str(count) for count in (figure.queries, figure.lost, figure.no_hits, figure.excluded_self)]
                + [_figure(figure.unjudged)]
            )
    return rows


def difference_rows(pairs: Iterable[PairDifferences]) -> list[list[str]]:
    """Returns one row per pair: queries better, tied and worse, the mean difference, the greatest loss and gain."""
    rows = [
        ["pipeline", "against", "queries", "better", "tied", "worse", "difference", "95 % interval", "p",
         "greatest loss", "greatest gain"]
    ]  # fmt: skip
    for pair in pairs:
        compared, interval = pair.compared, pair.compared.interval
        ends = (pair.ascending[0], pair.ascending[-1]) if pair.ascending else (None, None)
        rows.append(
            [
                compared.second,
                compared.first,
                *(str(count) for count in (compared.queries, compared.wins, compared.ties, compared.losses)),
                f"{compared.difference:+z.4f}",
                _signed_words(interval),
                f"{compared.p:.4f}",
                *("–" if end is None else f"{end:+z.4f}" for end in ends),
            ]
        )
    return rows


def pair_differences(report: Report) -> list[PairDifferences]:
    """Returns the differences of each pipeline from the baseline."""
    return [
        PairDifferences(outcome.against_first, outcome.differences)
        for outcome in report.pipelines.values()
        if outcome.against_first
    ]


def kind_tables(report: Report) -> Iterator[Table]:
    """Yields a table per field of the queries' metadata: means, and the difference of the pipeline that is shipped."""
    pair = report.examples
    compared = [f"{pair.second} minus {pair.first}", "95 % interval"] if pair else []
    for field in dict.fromkeys(kind.field for kind in report.kinds):
        kinds = [kind for kind in report.kinds if kind.field == field]
        rows = [[field, "queries", *report.pipelines, *compared]]
        for kind in kinds:
            means = (_figure(kind.means.get(name)) for name in report.pipelines)
            difference = "–" if kind.difference is None else f"{kind.difference:+z.4f}"
            cells = [kind.value, str(kind.queries), *means, difference, _signed_words(kind.interval)]
            rows.append(cells[: len(rows[0])])
        alone = "; each interval stands for one row, without a test" if pair else ""
        yield Table(f"kinds-{field}", f"{kinds[0].metric} by {field} of the queries{alone}", rows)


def loss_words(report: Report, pair: PairExamples) -> str:
    """Returns on how many queries the pipeline that is shipped loses against its runner-up."""
    compared = next(one for one in report.pairs if {one.first, one.second} == {pair.first, pair.second})
    lost = compared.losses if compared.second == pair.second else compared.wins
    most = f"{compared.queries:,} queries{'; the largest losses follow' if lost > len(pair.examples) else ''}."
    return f"{pair.second} has a lower {pair.metric} than {pair.first} on {lost or 'none'} of {most}"


def _kind_blocks(report: Report) -> Iterator[Block]:
    """Yields kinds of queries and the worst losses, or why there are none."""
    if report.kinds:
        yield Heading("Kinds of queries")
        yield from kind_tables(report)
    if (pair := report.examples) and report.pairs:  # those of an earlier release are of another pair
        yield Heading(f"The worst losses of {pair.second} against {pair.first}")
        yield Sentence(loss_words(report, pair))
        for number, example in enumerate(pair.examples, start=1):
            yield from example_parts(pair.first, pair.second, example, number)
    elif report.examples_reason is not None:
        yield Heading("Kinds of queries and the worst losses")
        yield Sentence(f"None, because {report.examples_reason}.")


def _judgment_blocks(change: JudgmentChange) -> Iterator[Block]:
    """Yields which judgments were merged over those of the dataset, and what that changed."""
    files = [["file", "sha256", "added", "changed", "unchanged", "of other queries"]]
    files += [
        [file.file, file.sha256[:12], *map(str, (file.added, file.changed, file.unchanged, file.other_queries))]
        for file in change.files
    ]
    figures = [["pipeline", *(f"{metric} {when}" for metric in CHANGE_METRICS for when in ("before", "after"))]]
    figures += [
        [name, *(_figure(side[name][metric]) for metric in CHANGE_METRICS for side in (change.before, change.after))]
        for name in change.after
    ]
    yield Heading("Added judgments")
    yield Prose(ADDED)
    yield Table("added-judgments", "Files of added judgments", files)
    yield Table("before-and-after", "Figures before and after the judgments were added", figures)


def _what_was_timed(report: Report) -> str:
    if all(outcome.imported for outcome in report.pipelines.values()):
        return "Imported run files hold no latency."
    top = report.timed_top or report.depth
    whole = (
        "Latency: one query at a time, from sending to the last byte read. The quality is that of the same answers, "
        f"{top} hits each. A p99 needs 662 answers."
    )
    if not any(outcome.deep for outcome in report.pipelines.values()):
        return whole
    return f"{whole} Metrics that need more use a second, untimed request for {report.depth} hits."


def _interval_words(interval: tuple[float, float]) -> str:
    return f"{interval[0]:.4f} to {interval[1]:.4f}"


def _signed_words(interval: tuple[float, float] | None) -> str:
    return f"{interval[0]:+z.4f} to {interval[1]:+z.4f}" if interval else "–"


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:z.4f}"
