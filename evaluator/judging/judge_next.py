"""Orders unjudged pairs by how much their judgments can change a comparison. Pure.

After Carterette, Allan and Sitaraman 2006, "Minimal test collections for retrieval evaluation" (SIGIR), which judge
first what can most change the difference of two systems; there in average precision, here in nDCG@10.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from evaluator.judging.compared_pool import ComparedPool, best_gains, ideal_dcg, weighted_gain
from evaluator.judging.judgment_log import MOST_GRADE
from evaluator.judging.pool import PooledPair, pairs_by_query
from evaluator.metrics.quality import Grades

if TYPE_CHECKING:
    from numpy.typing import NDArray

GRADES = tuple(range(1, MOST_GRADE + 1))  # a grade of 0 changes nothing


class JudgeNext:
    """Owns the state of an order: the grades so far and the weight of each open pair.

    The weight is the largest absolute change of the difference in nDCG@10 of its query that any grade would make, the
    ideal DCG included; of several comparisons the largest counts. How likely a grade is does not enter: it would put
    the documents of the better side first, and the verdict would lean to it until the other side is judged.
    """

    def __init__(
        self, pool: ComparedPool, judged: Grades, pairs: Sequence[PooledPair], graded: Mapping[PooledPair, int]
    ) -> None:
        """`judged`: the judgments known before the pool; `graded`: those of the pool; `pairs`: the whole pool."""
        import numpy as np

        self._pool = pool
        self._grades = {query: dict(judged.get(query, {})) for query in pool.queries}
        self._pairs = tuple(pairs)
        self._graded: dict[PooledPair, int] = {}
        self._places = {pair: at for at, pair in enumerate(self._pairs)}
        self._of_query = pairs_by_query(self._pairs)
        self._open = np.ones(len(self._pairs), dtype=bool)
        self._weights: NDArray[np.float64] = np.zeros(len(self._pairs))
        self._take(graded)
        for query in self._of_query:
            self._weigh(query)

    @property
    def grades(self) -> Grades:
        """All judgments so far, by query."""
        return self._grades

    def order(self) -> list[PooledPair]:
        """Returns the open pairs, those with the largest weight first; equal ones in the order of the pool."""
        import numpy as np

        return [self._pairs[at] for at in np.argsort(-self._weights, kind="stable") if self._open[at]]

    def first(self) -> PooledPair | None:
        """Returns the first pair of `order`; None where no pair is open."""
        import numpy as np

        if not self._open.any():
            return None
        return self._pairs[int(np.argmax(np.where(self._open, self._weights, -1.0)))]

    def add(self, pair: PooledPair, grade: int) -> None:
        """Closes an open pair with its grade."""
        self.follow({**self._graded, pair: grade})

    def follow(self, graded: Mapping[PooledPair, int]) -> None:
        """Takes over the grades of the pool as they are now: judges also change them and take them back."""
        for query in self._take(graded):
            self._weigh(query)

    def _take(self, graded: Mapping[PooledPair, int]) -> set[str]:
        """Keeps the grades; returns the queries of those that are new, changed or gone."""
        changed = {pair for pair, _ in graded.items() ^ self._graded.items()}
        self._graded = dict(graded)
        for pair in changed:
            grade = graded.get(pair)
            self._open[self._places[pair]] = grade is None
            if grade is None:
                del self._grades[pair.query][pair.document]  # what is pooled had no judgment before
            else:
                self._grades[pair.query][pair.document] = grade
        return {pair.query for pair in changed}

    def _weigh(self, query: str) -> None:
        """Computes the weights of a query's pairs."""
        import numpy as np

        judged, documents = self._grades[query], self._of_query[query]
        gains = best_gains(judged)
        before = ideal_dcg(gains)
        after = np.array([ideal_dcg(sorted((*gains, grade), reverse=True)) for grade in GRADES])
        # By comparison, document and grade.
        dcgs = np.array([weighted_gain(weights[query], judged) for weights in self._pool.weights])[:, None, None]
        discounts = np.array([[weights[query].get(one, 0.0) for one in documents] for weights in self._pool.weights])
        changes = (dcgs + discounts[:, :, None] * np.array(GRADES)) / after - (dcgs / before if before else 0.0)
        self._weights[[self._places[PooledPair(query, one)] for one in documents]] = np.abs(changes).max(axis=(0, 2))
