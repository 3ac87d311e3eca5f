"""Names the pipeline of the best quality whose p99 keeps a bound, for every offered rate. Pure."""

from collections.abc import Sequence

from evaluator.load.report import LoadPointReport, LoadReport

BOUNDS_MS = (50, 100, 250, 500, 1_000)


def best_under(points: Sequence[LoadPointReport], bound_ms: float) -> LoadPointReport | None:
    """Returns the point of the highest nDCG@10 among those with a p99 within the bound; of equals, the faster one."""
    within = [point for point in points if point.latency_ms.p99 is not None and point.latency_ms.p99 <= bound_ms]
    return max(within, key=lambda one: (one.quality.ndcg_at_10 or 0.0, -(one.latency_ms.p99 or 0.0)), default=None)


def best_rows(report: LoadReport) -> list[list[str]]:
    """Returns a header, and a row a rate with the best pipeline under each bound."""
    rows = [["rate", *(f"p99 ≤ {bound:,} ms" for bound in BOUNDS_MS)]]
    for rate, points in _by_rate(report):
        found = [best_under(points, bound) for bound in BOUNDS_MS]
        rows.append([f"{rate:g}/s", *("–" if one is None else _words(one) for one in found)])
    return rows


def best_sentences(report: LoadReport) -> list[str]:
    """Returns a sentence a rate: which pipeline is best from which bound on, and which ones have no p99."""
    sentences = []
    for rate, points in _by_rate(report):
        winners: dict[str, str] = {}
        for bound in BOUNDS_MS:
            best = best_under(points, bound)
            if best is not None and best.pipeline not in winners:
                tail = best.latency_ms.p99 or 0.0
                winners[best.pipeline] = (
                    f"{best.pipeline} is best under p99 ≤ {bound:,} ms ({_figure(best)}, {tail:.0f} ms)"
                )
        unknown = [point.pipeline for point in points if point.latency_ms.p99 is None]
        said = [*winners.values()]
        if not winners and len(unknown) < len(points):
            said.append(f"no pipeline has a p99 within {BOUNDS_MS[-1]:,} ms")
        if unknown:
            said.append(f"not judged, because they have no p99: {', '.join(unknown)}")
        sentences.append(f"At {rate:g}/s: {'; '.join(said)}.")
    return sentences


def _by_rate(report: LoadReport) -> list[tuple[float, list[LoadPointReport]]]:
    rates = sorted({point.rate for point in report.points if point.rate is not None})
    return [(rate, [point for point in report.points if point.rate == rate]) for rate in rates]


def _words(point: LoadPointReport) -> str:
    return f"{point.pipeline} ({point.quality.ndcg_at_10 or 0.0:.4f})"


def _figure(point: LoadPointReport) -> str:
    return f"nDCG@10 {point.quality.ndcg_at_10 or 0.0:.4f}"
