"""Counts the candidates that the rerank stages of an answer scored, as far as the answer shows. Pure."""

from collections.abc import Mapping, Sequence

from services.contracts.query import Degradation


def candidates_scored(degraded: Sequence[Degradation], hits: int, reranks: Mapping[str, int], asked: int) -> int | None:
    """Returns the candidates that all rerank stages scored; None where the answer does not show it.

    `hits`: of the answer, of `asked`. `reranks`: the most candidates of each stage. A degradation names the number.
    Otherwise every candidate was scored, and the answer shows them all where it has fewer hits than were asked for, or
    where no more than its hits may be re-ranked.
    """
    flagged = {one.stage: one.done for one in degraded}
    total = 0
    for stage, top in reranks.items():
        if stage in flagged:
            total += flagged[stage]
        elif top <= hits or hits < asked:
            total += min(top, hits)
        else:
            return None
    return total


def share_scored(degraded: Sequence[Degradation], reranks: Mapping[str, int]) -> float:
    """Returns the share of their candidates that the rerank stages scored, as a mean over the stages."""
    shares = {one.stage: one.done / one.of if one.of else 1.0 for one in degraded}
    return sum(shares.get(stage, 1.0) for stage in reranks) / len(reranks)


def mean_scored(numbers: Sequence[int | None]) -> float | None:
    """Returns the mean over answers; None without one, and where one of them does not show its number."""
    known = [number for number in numbers if number is not None]
    return sum(known) / len(known) if known and len(known) == len(numbers) else None
