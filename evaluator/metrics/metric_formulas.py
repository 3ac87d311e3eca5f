"""Computes the metrics of one query, in expectation over the orders of documents with equal scores. Pure.

Each formula takes the query's judgments, its ranking as groups of tied documents (best group first) and the number of
the metric's name. Where no documents tie, every group holds one document and the expectation is the figure itself. The
closed forms follow McSherry and Najork 2008, "Computing information retrieval performance measures efficiently in the
presence of tied scores". Which name means which formula is left to `evaluator.metrics.metric_table`.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

RELEVANCE_LEVEL = 1  # the lowest grade that counts as relevant

TiedRanking = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class QueryJudgments:
    """Judgments as the metrics of one query see them.

    `grades`: by document, none negative. `anywhere`: every document with a judgment for any query.
    """

    grades: Mapping[str, int]
    anywhere: Collection[str]

    def gain(self, document: str) -> int:
        """Returns the grade; 0 without a judgment."""
        return self.grades.get(document, 0)

    def relevant(self, document: str) -> bool:
        """Returns whether the grade reaches the relevance level."""
        return self.gain(document) >= RELEVANCE_LEVEL

    @property
    def gains(self) -> list[int]:
        """The grades of the relevant documents, highest first."""
        return sorted((grade for grade in self.grades.values() if grade >= RELEVANCE_LEVEL), reverse=True)


Formula = Callable[[QueryJudgments, TiedRanking, int], float | None]


def ndcg(query: QueryJudgments, ranking: TiedRanking, k: int) -> float:
    """Returns DCG over ideal DCG at `k`; the gain is the grade (Järvelin and Kekäläinen 2002)."""
    return _ndcg(query, ranking, k, float)


def ndcg_exp(query: QueryJudgments, ranking: TiedRanking, k: int) -> float:
    """Returns DCG over ideal DCG at `k`; the gain is 2^grade - 1 (Burges et al. 2005)."""
    return _ndcg(query, ranking, k, lambda grade: 2.0**grade - 1)


def reciprocal_rank(query: QueryJudgments, ranking: TiedRanking, k: int) -> float:
    """Returns 1 / rank of the first relevant document, 0 if it stands below `k`."""
    for before, group in _placed(ranking):
        n, relevant = len(group), sum(map(query.relevant, group))
        if relevant:
            # The first relevant one stands at place i of the group: the others are among the n - i places after it.
            ways = math.comb(n, relevant)
            places = range(1, min(n - relevant + 1, k - before) + 1)
            return math.fsum(math.comb(n - i, relevant - 1) / ways / (before + i) for i in places)
    return 0.0


def average_precision(query: QueryJudgments, ranking: TiedRanking, k: int) -> float:
    """Returns the mean over all relevant documents of the precision at their ranks; `k` 0: as deep as the ranking."""
    positives, above, parts = len(query.gains), 0, []
    for before, group in _placed(ranking):
        n, relevant = len(group), sum(map(query.relevant, group))
        if relevant:
            # Beside a relevant document at place i, each of the others is relevant with (relevant - 1) / (n - 1).
            beside = (relevant - 1) / max(1, n - 1)
            places = range(1, min(n, k - before if k else n) + 1)
            parts += [relevant / n * (above + 1 + (i - 1) * beside) / (before + i) for i in places]
        above += relevant
    return math.fsum(parts) / positives if positives else 0.0


def precision(query: QueryJudgments, ranking: TiedRanking, k: int) -> float:
    """Returns the relevant documents of the first `k`, over `k`."""
    return _weighted(ranking, query.relevant, k) / k


def recall(query: QueryJudgments, ranking: TiedRanking, k: int) -> float:
    """Returns the relevant documents of the first `k`, over all relevant ones."""
    return _weighted(ranking, query.relevant, k) / max(1, len(query.gains))


def capped_recall(query: QueryJudgments, ranking: TiedRanking, k: int) -> float:
    """Returns the relevant documents of the first `k`, over min(k, all relevant ones) (BEIR, arXiv 2104.08663)."""
    return _weighted(ranking, query.relevant, k) / min(k, max(1, len(query.gains)))


def success(query: QueryJudgments, ranking: TiedRanking, k: int) -> float:
    """Returns 1 if a relevant document is among the first `k`, else 0."""
    for before, group in _placed(ranking):
        n, relevant = len(group), sum(map(query.relevant, group))
        if relevant:
            places = max(0, min(n, k - before))
            return 1 - math.comb(n - relevant, places) / math.comb(n, places)
    return 0.0


def judged(query: QueryJudgments, ranking: TiedRanking, k: int) -> float | None:
    """Returns the share of the first `k` shown that was judged, relevant or not; None where nothing is shown."""
    shown = min(k, sum(map(len, ranking)))
    return _weighted(ranking, query.grades.__contains__, k) / shown if shown else None


def hole(query: QueryJudgments, ranking: TiedRanking, k: int) -> float | None:
    """Returns 1 - `judged`; None where nothing is shown."""
    share = judged(query, ranking, k)
    return None if share is None else 1 - share


def hole_beir(query: QueryJudgments, ranking: TiedRanking, k: int) -> float:
    """Returns the documents of the first `k` that no query has a judgment for, over `k` (BEIR's `hole`)."""
    return _weighted(ranking, lambda document: document not in query.anywhere, k) / k


def bpref(query: QueryJudgments, ranking: TiedRanking, _: int = 0) -> float:
    """Returns the mean over relevant documents of 1 - judged non-relevant ones above / min(R, N), as trec_eval does.

    R and N: documents judged relevant and not; at most R are counted above (Buckley and Voorhees 2004). Unjudged
    documents are passed over.
    """
    positives = len(query.gains)
    most = min(positives, len(query.grades) - positives)
    above, parts = 0, []
    for group in ranking:
        relevant = sum(map(query.relevant, group))
        others = sum(document in query.grades for document in group) - relevant
        if relevant:
            # Of the others in the group, each number from none to all stands above a relevant one equally often.
            losses = [min(above + x, positives) / most if most else 0.0 for x in range(others + 1)]
            parts.append(relevant * (1 - math.fsum(losses) / len(losses)))
        above += others
    return math.fsum(parts) / positives if positives else 0.0


def rank_biased_precision(query: QueryJudgments, ranking: TiedRanking, percent: int) -> float:
    """Returns (1 - p) × the sum of p^(rank - 1) over relevant documents, p = `percent` / 100 (Moffat, Zobel 2008)."""
    p = percent / 100
    return min(1.0, (1 - p) * _weighted(ranking, query.relevant, 0, lambda rank: p ** (rank - 1)))


def _ndcg(query: QueryJudgments, ranking: TiedRanking, k: int, gain: Callable[[int], float]) -> float:
    ideal = math.fsum(gain(grade) / math.log2(rank + 1) for rank, grade in enumerate(query.gains[:k], start=1))
    gained = _weighted(ranking, lambda name: gain(query.gain(name)), k, lambda rank: 1 / math.log2(rank + 1))
    return min(1.0, gained / ideal) if ideal else 0.0


def _weighted(
    ranking: TiedRanking, value: Callable[[str], float], k: int, weight: Callable[[int], float] = lambda rank: 1.0
) -> float:
    """Returns the sum over the first `k` ranks (0: all) of weight × the mean value of the rank's group."""
    parts = []
    for before, group in _placed(ranking):
        mean = math.fsum(map(value, group)) / len(group)
        if mean:
            last = min(before + len(group), k) if k else before + len(group)
            parts.append(mean * math.fsum(map(weight, range(before + 1, last + 1))))
    return math.fsum(parts)


def _placed(ranking: TiedRanking) -> Iterator[tuple[int, Sequence[str]]]:
    """Yields each group with the number of documents above it."""
    before = 0
    for group in ranking:
        yield before, group
        before += len(group)
