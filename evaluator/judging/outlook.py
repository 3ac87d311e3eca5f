"""Says whether a verdict can still change by the judgments that are left. Pure; seeded.

The grades of the open pairs are drawn many times, and each completion of the judgments gets its verdict. Carterette,
Allan and Sitaraman 2006 stop at 95 % confidence in the sign of the difference; here it is in the whole outcome.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from evaluator.comparison.paired_tests import ALPHA, ROUNDING
from evaluator.comparison.verdict import MARGIN, Outcome, outcomes_of
from evaluator.judging.compared_pool import DEPTH, DISCOUNTS, STRATA, ComparedPool, best_gains, weighted_gain
from evaluator.judging.judgment_log import MOST_GRADE
from evaluator.judging.pool import PooledPair, pairs_by_query
from evaluator.metrics.quality import Grades

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DRAWS = 400
CONFIDENCE = 0.95
# Judgments of each grade in each stratum that the prior counts for: all grades are as likely before any judgment.
PRIOR = 1.0
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


@dataclass(frozen=True, slots=True)
class VerdictOutlook:
    """The verdict of one comparison now, and what it becomes when all open pairs are judged.

    `outcome`: by the judgments so far, unjudged documents counted as not relevant. `shares`: of the completions, by
    outcome. `settled`: at least CONFIDENCE of the completions have the present outcome.
    """

    outcome: Outcome
    shares: Mapping[Outcome, float]
    settled: bool


def verdict_outlooks(
    pool: ComparedPool,
    grades: Grades,
    open_pairs: Sequence[PooledPair],
    counts: "NDArray[np.float64]",
    seed: int,
) -> tuple[VerdictOutlook, ...]:
    """Returns the outlook of each comparison. `counts`: graded pairs by stratum and grade (`grade_counts`).

    The rates of the grades in a stratum are drawn from their Dirichlet posterior, so that few judgments leave them
    uncertain. Completions are tested by paired t tests, the present state by the tests of `compare`; both adjust for
    the family of all comparisons.
    """
    present = outcomes_of(pool.differences(grades), seed, MARGIN)
    drawn = _drawn_outcomes(_completions(pool, grades, open_pairs, counts, seed))
    outlooks = []
    for outcome, of_draws in zip(present, drawn, strict=True):
        shares = {one: of_draws.count(one) / len(of_draws) for one in OUTCOMES}
        outlooks.append(VerdictOutlook(outcome, shares, not open_pairs or shares[outcome] >= CONFIDENCE))
    return tuple(outlooks)


def grade_counts(pool: ComparedPool, graded: Mapping[PooledPair, int]) -> "NDArray[np.float64]":
    """Counts the graded pairs of a pool by stratum (row) and grade (column)."""
    import numpy as np

    counts = np.zeros((STRATA, MOST_GRADE + 1))
    for pair, grade in graded.items():
        counts[pool.strata[pair.query].get(pair.document, 0), grade] += 1
    return counts


def _completions(
    pool: ComparedPool,
    grades: Grades,
    open_pairs: Sequence[PooledPair],
    counts: "NDArray[np.float64]",
    seed: int,
) -> "NDArray[np.float64]":
    """Draws the differences of each comparison, completion and query."""
    import numpy as np

    dice = np.random.default_rng(seed)
    rates = np.stack([dice.dirichlet(row + PRIOR, DRAWS) for row in counts], axis=1)
    thresholds = rates.cumsum(axis=2)[:, :, :-1]
    discounts, documents = np.array(DISCOUNTS), pairs_by_query(open_pairs)
    values = np.zeros((len(pool.weights), DRAWS, len(pool.queries)))
    for at, query in enumerate(pool.queries):
        judged, left = grades.get(query, {}), documents.get(query, ())
        strata = [pool.strata[query].get(one, 0) for one in left]
        drawn = (dice.random((DRAWS, len(left), 1)) > thresholds[:, strata, :]).sum(axis=2)
        known = np.broadcast_to(np.array(best_gains(judged), dtype=np.int64), (DRAWS, len(best_gains(judged))))
        gains = -np.sort(-np.concatenate([known, drawn], axis=1), axis=1)[:, :DEPTH]
        ideal = gains @ discounts[: gains.shape[1]]
        for number, of_comparison in enumerate(pool.weights):
            weights = np.array([of_comparison[query].get(one, 0.0) for one in left])
            found = weighted_gain(of_comparison[query], judged) + drawn @ weights
            values[number, :, at] = np.divide(found, ideal, out=np.zeros(DRAWS), where=ideal > 0)
    return np.where(np.abs(values) < ROUNDING, 0.0, values)


def _drawn_outcomes(values: "NDArray[np.float64]") -> list[list[Outcome]]:
    """Returns the outcomes of each comparison's completions, as `evaluator.comparison.verdict` decides them."""
    import numpy as np
    from scipy import stats  # type: ignore[import-untyped]  # ships no types

    queries = values.shape[2]
    means = values.mean(axis=2)
    spread = values.std(axis=2, ddof=1) if queries > 1 else np.zeros_like(means)
    equal = spread < ROUNDING  # then no t exists, and p is that of sign flips
    errors = np.where(equal, 1.0, spread) / np.sqrt(queries)

    def beyond(distances: "NDArray[np.float64]") -> "NDArray[np.float64]":
        tails = stats.t.sf(distances / errors, max(1, queries - 1))
        return np.asarray(np.where(equal, np.where(distances > 0, 2.0**-queries, 1.0), tails))

    two_sided = _holm(np.minimum(1.0, 2 * beyond(np.abs(means))))
    same = _holm(np.maximum(beyond(MARGIN + means), beyond(MARGIN - means)))
    none_differs = ~values.any(axis=2)
    decided = np.select(
        [(two_sided < ALPHA) & (means > 0), two_sided < ALPHA, (same < ALPHA) | none_differs],
        ["better", "worse", "same"],
        "cannot tell",
    )
    found: list[list[Outcome]] = decided.tolist()
    return found


def _holm(ps: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Adjusts p values over the first axis, each column a family (Holm 1979)."""
    import numpy as np

    places = np.argsort(ps, axis=0)
    factors = np.arange(len(ps), 0, -1)[:, None]
    ascending = np.minimum(1.0, np.take_along_axis(ps, places, axis=0) * factors)
    adjusted = np.empty_like(ps)
    np.put_along_axis(adjusted, places, np.maximum.accumulate(ascending, axis=0), axis=0)
    return adjusted
