"""Computes what a pipeline would have answered to a query, from candidates and the scores of a model. Pure.

Fusion and mixing are the gateway's own (services/ranking/stages.py).
"""

from collections.abc import Iterable, Sequence
from typing import assert_never

from evaluator.attribution.candidates import QueryCandidates
from evaluator.attribution.collect import leg_name
from services.contracts.pipelines import Cut, Fuse, Pipeline, Rerank, Retrieve, SourceStage
from services.contracts.scored import Ranking
from services.ranking.stages import fused, reranked


class NotCollected(Exception):
    """A leg or a score that the pipeline needs was not collected."""


class ReplayedQuery:
    """Replays pipelines on one query. Keeps what the last source gave: ask in the order of sources."""

    def __init__(self, given: QueryCandidates) -> None:
        self._given = given
        self._source: SourceStage | None = None
        self._ranking: Ranking = ()

    def answer(self, pipeline: Pipeline, top: int) -> tuple[str, ...]:
        """Returns the ids of the first `top` hits. Raises NotCollected."""
        source = pipeline.identified.source.stage
        if source is not self._source:
            self._ranking = self._sourced(source)
            self._source = source
        # No later stage looks deeper, and what stands below never rises: most of the time went into carrying it along.
        deepest = max((one.stage.top for one in pipeline.identified.later), default=top)
        ranking = self._ranking[: max(top, deepest)]
        for one in pipeline.identified.later:
            match one.stage:
                case Rerank() as stage:
                    ranking = self._reranked(stage, ranking)
                case Cut() as stage:
                    ranking = ranking[: stage.top]
                case _:
                    assert_never(one.stage)
        return tuple(hit.id for hit in ranking[:top])

    def _sourced(self, stage: SourceStage) -> Ranking:
        match stage:
            case Retrieve():
                found = self._given.legs.get(leg_name(stage))
                if found is None:
                    raise NotCollected(leg_name(stage))
                return found.ranking[: stage.top]
            case Fuse():
                return fused(stage, [self._sourced(one) for one in stage.inputs], self._least_scores(stage.inputs))
            case _:
                assert_never(stage)

    def _least_scores(self, inputs: Sequence[SourceStage]) -> list[float | None]:
        """Returns the least scores of legs; of fuses, 0 unless they are sums of z-scores."""
        return [
            self._given.legs[leg_name(one)].least_score
            if isinstance(one, Retrieve)
            else None
            if one.method == "weighted" and one.normalisation == "z-score"
            else 0.0
            for one in inputs
        ]

    def _reranked(self, stage: Rerank, before: Ranking) -> Ranking:
        head = before[: stage.top]
        if not head:
            return before
        known = self._given.scores.get(stage.backend)
        if known is None:
            raise NotCollected(stage.backend)
        try:
            scores = {one.id: known.scores[one.id] for one in head}
        except KeyError as error:
            raise NotCollected(f"{stage.backend}: a score of {error}") from error
        return reranked(stage, before, scores, known.weight)


def replayed(
    given: QueryCandidates, pipelines: Iterable[Pipeline], top: int
) -> tuple[list[tuple[str, ...]], list[int | None]]:
    """Returns the distinct answers to a query, and for each pipeline the number of its answer; None: not collected.

    Pipelines with the same source object should follow one another.
    """
    query = ReplayedQuery(given)
    numbers: dict[tuple[str, ...], int] = {}
    found: list[int | None] = []
    for pipeline in pipelines:
        try:
            answer = query.answer(pipeline, top)
        except NotCollected:
            found.append(None)
        else:
            found.append(numbers.setdefault(answer, len(numbers)))
    return list(numbers), found
