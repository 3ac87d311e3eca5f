"""Lists, for every offered rate and some usual bounds of p99, which pipeline is the best. Pure; `best_under` judges."""

from collections.abc import Sequence

from evaluator.load.best_under import BestUnder, best_under, under_bound
from evaluator.load.report import LoadPointReport, LoadReport

BOUNDS_MS = (50, 100, 250, 500, 1_000)


def best_at(points: Sequence[LoadPointReport], rate: float, bound_ms: float) -> BestUnder:
    """Names the best pipeline of a rate's points under a bound of p99."""
    judged = [
        under_bound(point.pipeline, point.quality.ndcg_at_10, point.latency_ms, bound_ms)
        for point in points
        if point.traffic == f"{rate:g}"  # not what only this pipeline got, as a multiple of its capacity
    ]
    return best_under(judged, rate, bound_ms)


def best_rows(report: LoadReport) -> list[list[str]]:
    """Returns a header, and a row a rate with the best pipeline under each bound; [] without a rate."""
    rates = report.plan.rates
    header = ["rate", *(f"p99 ≤ {bound:,} ms" for bound in BOUNDS_MS)]
    rows = [[f"{rate:g}/s", *(_words(best_at(report.points, rate, bound)) for bound in BOUNDS_MS)] for rate in rates]
    return [header, *rows] if rows else []


def _words(found: BestUnder) -> str:
    figures = {one.pipeline: one.ndcg_at_10 for one in found.pipelines}
    return found.outcome if found.best is None else f"{found.best} ({figures[found.best]:.4f})"
