"""Builds the tables of a load, and the sentences about it. Pure."""

from collections.abc import Iterator, Sequence

from evaluator.load.capacity import BEYOND, VERIFICATIONS, CapacityReport
from evaluator.load.load_report import LoadReport
from evaluator.load.points.point_report import LoadPointReport, missing_cpu
from evaluator.machine.machine_conditions import condition_words, joined_conditions
from evaluator.pages.cost_tables import cpu_cells, process_names
from evaluator.runs.latency import DOUBTFUL, MARKED, Timed

HEADER = (
    "pipeline", "rate", "in time/s", "p50 ms", "p95 ms", "p99 ms", "max ms",
    "nDCG@10", "requests", "late", "failed", "dropped", "degraded", "re-ranked", "timing",
)  # fmt: skip

MEASURED_HEADER = (
    "pipeline", "traffic", "timing", "send lag p99 ms", "generator CPU", "priority", "foreign CPU", "steal",
    "throttling", "busy windows",
)  # fmt: skip
PERCENTILES = f"p99 needs 662 requests, p99.9 needs 7,000. {DOUBTFUL}: times that do not hold."
TIMES = ("p50", "p95", "p99")  # of the figures that are repeated


def load_rows(report: LoadReport) -> list[list[str]]:
    """Returns a header and one row per point. `degraded`: share of the answers in time; `re-ranked`: of candidates."""
    return [list(HEADER), *(_row(point) for point in report.points)]


def percentile_rows(report: LoadReport) -> list[list[str]]:
    """Returns a header and the percentiles of each point, in milliseconds, with the intervals that are known."""
    names = ("p50", "p90", "p95", "p99", "p99_9")
    rows = [["pipeline", "traffic", *(name.replace("_", ".") for name in names), "max", "n"]]
    for point in report.points:
        figures = point.latency_ms
        cells = []
        for name in names:
            time, interval = getattr(figures, name), figures.intervals.get(name)
            ends = [Timed(ms, point.timing_valid).cell() for ms in interval or ()]
            cells.append(f"{time.cell()} ({' to '.join(ends)})" if ends and not time.wide else time.cell())
        rows.append([point.pipeline, point.traffic_in_words, *cells, figures.max.cell(), str(figures.n)])
    return rows


def load_warnings(report: LoadReport) -> Iterator[str]:
    """Yields a sentence for each reason why times are not valid, and what the requests met."""
    for point in report.points:
        name = f"{point.pipeline} at {point.traffic_in_words}"
        for fault in point.timing_faults:
            yield f"{name}: times {MARKED}, because {fault}"
        if any(not getattr(point.latency_ms, share).holds for share in TIMES):
            share, words = point.latency_ms.disturbed, condition_words(joined_conditions(point.conditions))
            yield f"{name}: times are known as intervals: other work disturbed {share:.0%} of the requests ({words})"
        if point.counts.failed:
            kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(point.counts.errors_by_kind.items()))
            yield f"{name}: {point.counts.failed} requests failed ({kinds})"
        if point.refusal_ms is not None:
            times = ", ".join(
                f"{share} {time.cell()} ms"
                for share in TIMES
                if (time := getattr(point.refusal_ms, share)).unchecked_ms is not None
            )
            yield f"{name}: {point.refusal_ms.n} requests were refused, after {times}"
        if point.counts.degraded:
            stages = ", ".join(f"{stage} {count}" for stage, count in sorted(point.counts.degraded_by_stage.items()))
            yield f"{name}: {point.counts.degraded} answers were degraded ({stages})"
        if point.cost is not None and point.cost.cpu_ms is None:
            yield f"{name}: total CPU time is unknown: {missing_cpu(point.cost)}"
        for backend, use in point.cached.items():
            yield f"{name}: {backend} had {use.rate:.1%} of {use.of} results in its cache"
    yield from report.remarks


def ratio_rows(report: LoadReport) -> list[list[str]]:
    """Returns a header, and how many times as long one pipeline takes as another, one row each."""
    rows = [
        [
            ratio.traffic,
            f"{ratio.second} / {ratio.first}",
            ratio.percentile,
            f"{ratio.ratio:.2f}{_mark(ratio.timing_valid)}",
            *(
                ("–", "–")
                if ratio.interval is None
                else (f"{at:.2f}{_mark(ratio.timing_valid)}" for at in ratio.interval)
            ),
        ]
        for ratio in report.ratios
    ]
    return [["rate", "pipelines", "of", "ratio", "from", "to"], *rows]


def repeat_rows(report: LoadReport) -> list[list[str]]:
    """Returns a header, and the median of each figure over the repeats, one row each."""
    rows = [
        [
            point.pipeline,
            point.traffic_in_words,
            name,
            *(
                f"{value:.4g}{_mark(point.timing_valid or name not in TIMES)}"
                for value in (figure.median, *figure.interval)
            ),
            f"{figure.confidence:.1%}",
            str(len(figure.values)),
        ]
        for point in report.points
        for name, figure in point.repeats.items()
    ]
    return [["pipeline", "rate", "figure", "median", "from", "to", "confidence", "repeats"], *rows]


def cost_rows(report: LoadReport) -> list[list[str]]:
    """Returns a header, and CPU milliseconds per request, one row per point with a cost."""
    names = process_names(point.cost for point in report.points if point.cost is not None)
    head = ["pipeline", "rate", "CPU ms per request", *names, "requests", "lost"]
    points = report.points if names else ()
    return [head, *([point.pipeline, point.traffic_in_words, *cpu_cells(point.cost, names)] for point in points)]


def overview_rows(capacities: Sequence[CapacityReport]) -> list[list[str]]:
    """Returns a header and the capacity of each pipeline, one row each."""
    rows = [["pipeline", "p99 bound ms", "capacity", "verified", "knee", *(f"{at:g}x" for at in BEYOND)]]
    for report in capacities:
        capacity, points = report.found, {point.multiple: point for point in report.multiples}
        rate = capacity.outcome if capacity.rate is None else f"{capacity.rate:g}/s"
        verified = "–" if capacity.rate is None else f"{capacity.verified} of {VERIFICATIONS}"
        knee = "–" if report.knee is None else f"{report.knee:g}/s"
        beyond = [
            f"{points[at].goodput:.1f} ({points[at].ndcg_a_second:.1f})" if at in points else "–" for at in BEYOND
        ]
        rows.append([report.pipeline, f"{capacity.bound_ms:g}", rate, verified, knee, *beyond])
    return rows


def measured_point_rows(report: LoadReport) -> list[list[str]]:
    """Returns a header, and figures of generators and machine, one row per point."""
    rows = [list(MEASURED_HEADER)]
    for point in report.points:
        lag, machine = point.generators.send_lag_p99_ms, joined_conditions(point.conditions)
        shares = (machine.foreign, machine.steal, machine.throttled)
        rows.append(
            [
                point.pipeline,
                point.traffic_in_words,
                "valid" if point.timing_valid else MARKED,
                "–" if lag is None else f"{lag:.2f}",
                f"{point.generators.cpu:.1%}",
                "real-time" if point.generators.real_time else "normal",
                *map(_share, shares),
                f"{machine.busy_windows} of {machine.windows}",
            ]
        )
    return rows


def _row(point: LoadPointReport) -> list[str]:
    ndcg, latency = point.quality.ndcg_at_10, point.latency_ms
    return [
        point.pipeline,
        point.traffic_in_words,
        f"{point.goodput:.1f}",
        *(time.cell() for time in (latency.p50, latency.p95, latency.p99, latency.max)),
        "–" if ndcg is None else f"{ndcg:.4f}",
        *(str(count) for count in (point.counts.requests, point.counts.late, point.counts.failed)),
        str(point.counts.dropped),
        _share(point.quality.degraded_share if point.counts.answered else None),
        _share(point.quality.reranked_share),
        "valid" if point.timing_valid else MARKED,
    ]


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _mark(valid: bool) -> str:
    return "" if valid else DOUBTFUL
