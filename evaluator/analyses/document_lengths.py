"""Distributions of the lengths of documents: those that a pipeline prefers, and those judged relevant. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import accumulate

from evaluator.analyses.analysis_report import LengthDistribution


def length_distribution(documents: Iterable[str], lengths: Mapping[str, int]) -> LengthDistribution:
    """Counts the lengths of documents, given by id as often as they count. `lengths`: in words, of those there are."""
    counts: Counter[int] = Counter()
    absent = 0
    for document in documents:
        if document in lengths:
            counts[lengths[document]] += 1
        else:
            absent += 1
    ordered = sorted(counts.items())
    total = counts.total()
    return LengthDistribution(
        documents=total,
        absent=absent,
        mean=sum(words * count for words, count in ordered) / total if total else None,
        quartiles=(_quantile(ordered, 1), _quantile(ordered, 2), _quantile(ordered, 3)) if total else None,
        counts=tuple(ordered),
    )


def _quantile(ordered: list[tuple[int, int]], quarter: int) -> int:
    """Returns the least length that at least so many quarters of the documents do not exceed."""
    upto = list(accumulate(count for _, count in ordered))
    return next(words for (words, _), below in zip(ordered, upto, strict=True) if 4 * below >= quarter * upto[-1])
