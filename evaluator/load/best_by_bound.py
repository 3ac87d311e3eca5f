"""Lists, for every offered rate and some usual bounds of p99, which pipeline is the best. Pure; `best_under` judges."""

from collections.abc import Sequence

from evaluator.load.best_under import BestUnder, best_under, under_bound
from evaluator.load.quality_differences import QualityDifference, told_apart
from evaluator.load.report import LoadPointReport, LoadReport

BOUNDS_MS = (50, 100, 250, 500, 1_000)


def best_at(
    points: Sequence[LoadPointReport], differences: Sequence[QualityDifference], rate: float, bound_ms: float
) -> BestUnder:
    """Names the best pipeline of a rate's points under a bound of p99. `differences`: of their nDCG@10."""
    judged = [
        under_bound(point.pipeline, point.quality.ndcg_at_10, point.latency_ms, point.quality.degraded_share, bound_ms)
        for point in points
        if point.traffic == f"{rate:g}"  # not what only this pipeline got, as a multiple of its capacity
    ]
    return best_under(judged, rate, bound_ms, told_apart(differences, f"{rate:g}"))


def best_rows(report: LoadReport) -> list[list[str]]:
    """Returns a header, and a row a rate with the best pipeline under each bound; [] without a rate."""
    rates, differences = report.plan.rates, report.quality_differences
    header = ["rate", *(f"p99 ≤ {bound:,} ms" for bound in BOUNDS_MS)]
    rows = [
        [f"{rate:g}/s", *(_words(best_at(report.points, differences, rate, bound)) for bound in BOUNDS_MS)]
        for rate in rates
    ]
    return [header, *rows] if rows else []


def _words(found: BestUnder) -> str:
    if found.best is None:
        return found.outcome
    figures = {one.pipeline: one.ndcg_at_10 for one in found.pipelines}
    close = f", not told apart from {', '.join(found.not_told_apart)}" if found.not_told_apart else ""
    return f"{found.best} ({figures[found.best]:.4f}){close}"
