"""Orders unjudged pairs by how much their judgments can change a comparison with the first pipeline. Pure.

After Carterette, Allan and Sitaraman 2006, "Minimal test collections for retrieval evaluation" (SIGIR), which judge
first what can most change the difference of two systems; there in average precision, here in nDCG@10. DCG is linear in
the grades (Järvelin and Kekäläinen 2002): a document adds its grade, times its discount in the one ranking less that in
the other, over the ideal DCG of its query.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from evaluator.judging.judgment_log import MOST_GRADE
from evaluator.judging.pool import PooledPair
from evaluator.metrics.metric_formulas import RELEVANCE_LEVEL
from evaluator.metrics.quality import Grades, Rankings

if TYPE_CHECKING:
    from numpy.typing import NDArray

DEPTH = 10
DISCOUNTS = tuple(1 / math.log2(rank + 1) for rank in range(1, DEPTH + 1))
GRADES = tuple(range(1, MOST_GRADE + 1))  # a grade of 0 changes nothing

Weights = Mapping[str, Mapping[str, float]]  # query → document → discount, less that in the first ranking


class JudgeNext:
    """Keeps the state of an order: the grades so far and the weight of each open pair.

    The weight is the largest absolute change of the difference in nDCG@10 of its query that any grade would make, the
    ideal DCG included; of several comparisons the largest counts. How likely a grade is does not enter: it would put
    the documents of the better side first, and the verdict would lean to it until the other side is judged.
    """

    def __init__(
        self, rankings: Sequence[Rankings], queries: Sequence[str], judged: Grades, pairs: Sequence[PooledPair]
    ) -> None:
        """`rankings`: at least two, the one compared with first. `judged`: before the pool. `pairs`: the whole pool."""
        import numpy as np

        self._differences = _differences(rankings, queries)
        self._grades = {query: dict(judged.get(query, {})) for query in queries}
        self._pairs = tuple(pairs)
        self._graded: dict[PooledPair, int] = {}
        self._places = {pair: at for at, pair in enumerate(self._pairs)}
        self._documents: dict[str, list[str]] = {}
        for pair in self._pairs:
            self._documents.setdefault(pair.query, []).append(pair.document)
        self._weights: NDArray[np.float64] = np.zeros(len(self._pairs))
        for query in self._documents:
            self._weigh(query)

    def order(self, graded: Mapping[PooledPair, int]) -> list[PooledPair]:
        """Returns the pairs without a grade, those with the largest weight first; equal ones in the order of the pool.

        `graded`: of the pool as it is now: judges also change grades and take them back.
        """
        import numpy as np

        changed = {pair for pair, _ in graded.items() ^ self._graded.items()}
        for pair in changed:
            self._grades[pair.query].pop(pair.document, None)  # what is pooled had no judgment before
            if pair in graded:
                self._grades[pair.query][pair.document] = graded[pair]
        self._graded = dict(graded)
        for query in {pair.query for pair in changed}:
            self._weigh(query)
        ordered = (self._pairs[at] for at in np.argsort(-self._weights, kind="stable"))
        return [pair for pair in ordered if pair not in graded]

    def _weigh(self, query: str) -> None:
        """Computes the weights of a query's pairs."""
        import numpy as np

        judged, documents = self._grades[query], self._documents[query]
        gains = sorted((grade for grade in judged.values() if grade >= RELEVANCE_LEVEL), reverse=True)
        before = _ideal_dcg(gains)
        after = np.array([_ideal_dcg(sorted((*gains, grade), reverse=True)) for grade in GRADES])
        # By comparison, document and grade.
        dcgs = np.array([_dcg_difference(weights[query], judged) for weights in self._differences])[:, None, None]
        discounts = np.array([[weights[query].get(name, 0.0) for name in documents] for weights in self._differences])
        changes = (dcgs + discounts[:, :, None] * np.array(GRADES)) / after - (dcgs / before if before else 0.0)
        self._weights[[self._places[PooledPair(query, name)] for name in documents]] = np.abs(changes).max(axis=(0, 2))


def _differences(rankings: Sequence[Rankings], queries: Sequence[str]) -> list[Weights]:
    """Returns the weights of each ranking but the first."""
    first, *others = (
        {query: dict(zip(ranking.get(query, ()), DISCOUNTS, strict=False)) for query in queries} for ranking in rankings
    )
    return [
        {
            query: {
                name: other[query].get(name, 0.0) - first[query].get(name, 0.0) for name in other[query] | first[query]
            }
            for query in queries
        }
        for other in others
    ]


def _ideal_dcg(gains: Sequence[int]) -> float:
    """Returns the DCG of gains in descending order, down to DEPTH."""
    return math.fsum(gain * discount for gain, discount in zip(gains, DISCOUNTS, strict=False))


def _dcg_difference(weights: Mapping[str, float], grades: Mapping[str, int]) -> float:
    return math.fsum(weight * grades.get(document, 0) for document, weight in weights.items())
