"""Computes how alike two rankings are, whatever was judged. Pure."""

from collections.abc import Sequence

# The first ten ranks carry 86 % of the weight (Webber et al. 2010, section 4.3).
PERSISTENCE = 0.9


def overlap(first: Sequence[str], second: Sequence[str], k: int = 10) -> float:
    """Returns the share of the longer top `k` that both lists hold, 0 to 1; two empty lists are equal."""
    one, other = set(first[:k]), set(second[:k])
    longer = max(len(one), len(other))
    return len(one & other) / longer if longer else 1.0


def rank_biased_overlap(first: Sequence[str], second: Sequence[str], p: float = PERSISTENCE) -> float:
    """Returns extrapolated rank-biased overlap, 0 to 1, of lists of any length (Webber et al. 2010, equation 32).

    No list holds a document twice. Two empty lists are equal, an empty and another one share nothing.
    """
    shorter, longer = sorted((first, second), key=len)
    s, n = len(shorter), len(longer)
    if s == 0:
        return 1.0 if n == 0 else 0.0
    seen_shorter: set[str] = set()
    seen_longer: set[str] = set()
    shared = shared_at_s = 0
    total = 0.0
    for depth in range(1, n + 1):
        item = longer[depth - 1]
        seen_longer.add(item)
        shared += item in seen_shorter
        if depth <= s:
            other = shorter[depth - 1]
            seen_shorter.add(other)
            shared += other in seen_longer
        if depth == s:
            shared_at_s = shared
        total += shared / depth * p**depth
        if depth > s:
            # What the shorter list would share if its agreement went on.
            total += shared_at_s * (depth - s) / (s * depth) * p**depth
    return (1 - p) / p * total + ((shared - shared_at_s) / n + shared_at_s / s) * p**n
