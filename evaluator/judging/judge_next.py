"""Orders unjudged pairs by how much their judgments can change a comparison. Pure.

After Carterette, Allan and Sitaraman 2006, "Minimal test collections for retrieval evaluation" (SIGIR), which judge
first what most changes the difference of two systems; there in average precision, here in nDCG@10.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from evaluator.judging.compared_pool import STRATA, ComparedPool, best_gains, ideal_dcg, weighted_gain
from evaluator.judging.judgment_log import MOST_GRADE
from evaluator.judging.pool import PooledPair, pairs_by_query
from evaluator.quality import Grades

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Weight of the prior, in judgments: all grades are as likely before any judgment, and a stratum begins with the rates
# of all strata together (empirical Bayes).
PRIOR = 4.0


class JudgeNext:
    """Owns the state of an order: grades so far and, for each open pair, the change that each grade would make.

    The weight of a pair is the expected absolute change of a query's difference by its judgment: the sum over grades of
    their rate times the change, the ideal DCG included. Rates are those of the judgments so far among documents of the
    same stratum. Of several comparisons the largest weight counts.
    """

    def __init__(
        self, pool: ComparedPool, judged: Grades, pairs: Sequence[PooledPair], graded: Mapping[PooledPair, int]
    ) -> None:
        """`judged`: the judgments known before the pool; `graded`: those of the pool; `pairs`: the whole pool."""
        import numpy as np

        self._pool = pool
        self._grades = {query: dict(judged.get(query, {})) for query in pool.queries}
        self._pairs = tuple(pairs)
        self._places = {pair: at for at, pair in enumerate(self._pairs)}
        self._of_query = pairs_by_query(self._pairs)
        self._open = np.ones(len(self._pairs), dtype=bool)
        self._strata = np.array([pool.strata[one.query].get(one.document, 0) for one in self._pairs], dtype=np.int64)
        self._counts = grade_counts(pool, graded)
        self._changes = np.zeros((len(pool.weights), len(self._pairs), MOST_GRADE + 1))
        for pair, grade in graded.items():
            self._grades[pair.query][pair.document] = grade
            self._open[self._places[pair]] = False
        for query in self._of_query:
            self._weigh(query)

    @property
    def grades(self) -> Grades:
        """All judgments so far, by query."""
        return self._grades

    def order(self) -> list[PooledPair]:
        """Returns the open pairs, those with the largest weight first; equal ones in the order of the pool."""
        import numpy as np

        weights = self._weights()
        return [self._pairs[at] for at in np.argsort(-weights, kind="stable") if self._open[at]]

    def first(self) -> PooledPair | None:
        """Returns the first pair of `order`; None where no pair is open."""
        import numpy as np

        if not self._open.any():
            return None
        return self._pairs[int(np.argmax(np.where(self._open, self._weights(), -1.0)))]

    def add(self, pair: PooledPair, grade: int) -> None:
        """Closes an open pair with its grade."""
        at = self._places[pair]
        self._grades[pair.query][pair.document] = grade
        self._open[at] = False
        self._counts[self._strata[at], grade] += 1
        self._weigh(pair.query)

    def _weights(self) -> "NDArray[np.float64]":
        counts = with_prior(self._counts)
        rates = counts / counts.sum(axis=1, keepdims=True)
        weights: NDArray[np.float64] = (self._changes * rates[self._strata]).sum(axis=2).max(axis=0)
        return weights

    def _weigh(self, query: str) -> None:
        """Computes the changes of a query's open pairs."""
        import numpy as np

        judged, documents = self._grades[query], self._of_query[query]
        gains = best_gains(judged)
        before = ideal_dcg(gains)
        after = [ideal_dcg(sorted((*gains, grade), reverse=True)) for grade in range(1, MOST_GRADE + 1)]
        places = [self._places[PooledPair(query, document)] for document in documents]
        for number, of_comparison in enumerate(self._pool.weights):
            found = weighted_gain(of_comparison[query], judged)
            now = found / before if before else 0.0
            for at, document in zip(places, documents, strict=True):
                weight = of_comparison[query].get(document, 0.0)
                changed = [(found + grade * weight) / ideal for grade, ideal in enumerate(after, start=1)]
                self._changes[number, at, 1:] = np.abs(np.array(changed) - now)


def grade_counts(pool: ComparedPool, graded: Mapping[PooledPair, int]) -> "NDArray[np.float64]":
    """Counts the graded pairs of a pool by stratum (row) and grade (column)."""
    import numpy as np

    counts = np.zeros((STRATA, MOST_GRADE + 1))
    for pair, grade in graded.items():
        counts[pool.strata[pair.query].get(pair.document, 0), grade] += 1
    return counts


def with_prior(counts: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Adds the pseudo-counts of the prior to those of each stratum."""
    whole = counts.sum(axis=0) + PRIOR / counts.shape[1]
    added: NDArray[np.float64] = counts + PRIOR * whole / whole.sum()
    return added
