"""Computes what pipelines would have answered to a query, from candidates and the scores of a model. Pure.

Fusion and mixing are the gateway's own (services/ranking/stages.py). Pipelines with the same source share its ranking,
fusions with the same inputs the alignment of these, re-rankings of the same candidates their z-scores.
"""

from collections.abc import Sequence
from typing import assert_never

from evaluator.attribution.candidates import QueryCandidates
from evaluator.attribution.collect import leg_name, reranker_name
from evaluator.replay.choice import QueryAnswers
from services.contracts.pipelines import Cut, Fuse, Pipeline, Rerank, Retrieve, SourceStage
from services.contracts.scored import Ranking
from services.ranking.fusion import AlignedLegs, Leg, Mixture
from services.ranking.stages import fused, fused_least_score, needs_least_scores, reranked


class NotCollected(Exception):
    """A leg or a score that the pipeline needs was not collected; a least score also where there is none."""


def replayed(given: QueryCandidates, pipelines: Sequence[Pipeline], top: int) -> QueryAnswers:
    """Returns the first `top` hits of each pipeline."""
    query = _ReplayedQuery(given)
    distinct: dict[tuple[str, ...], int] = {}
    numbers: list[int | None] = []
    for pipeline in pipelines:
        try:
            answer = tuple(hit.id for hit in query.ranking(pipeline)[:top])
        except NotCollected:
            numbers.append(None)
        else:
            numbers.append(distinct.setdefault(answer, len(distinct)))
    return QueryAnswers(given.query, list(distinct), numbers)


class _ReplayedQuery:
    """Keeps rankings and scores that the pipelines share on one query."""

    def __init__(self, given: QueryCandidates) -> None:
        self._given = given
        self._sources: dict[SourceStage, Ranking] = {}
        self._aligned: dict[tuple[SourceStage, ...], AlignedLegs] = {}
        self._mixtures: dict[tuple[SourceStage, str, int], Mixture] = {}

    def ranking(self, pipeline: Pipeline) -> Ranking:
        """Returns what the last stage of a pipeline gives. Raises NotCollected."""
        source = pipeline.identified.source.stage
        if source not in self._sources:
            self._sources[source] = self._sourced(source)
        ranking = self._sources[source]
        for place, later in enumerate(pipeline.identified.later):
            match later.stage:
                case Rerank() as stage:
                    ranking = self._reranked(stage, ranking, None if place else source)
                case Cut() as stage:
                    ranking = ranking[: stage.top]
                case _:
                    assert_never(later.stage)
        return ranking

    def _sourced(self, stage: SourceStage) -> Ranking:
        match stage:
            case Retrieve():
                leg = self._given.legs.get(leg_name(stage))
                if leg is None:
                    raise NotCollected(leg_name(stage))
                return leg.ranking[: stage.top]
            case Fuse():
                if stage.inputs not in self._aligned:
                    legs = [Leg(self._sourced(leg), self._least_score(leg)) for leg in stage.inputs]
                    self._aligned[stage.inputs] = AlignedLegs(legs)
                if needs_least_scores(stage) and None in map(self._least_score, stage.inputs):
                    raise NotCollected("a least score")
                return fused(stage, self._aligned[stage.inputs])

    def _least_score(self, stage: SourceStage) -> float | None:
        if isinstance(stage, Retrieve):
            return self._given.legs[leg_name(stage)].least_score
        return fused_least_score(stage)

    def _reranked(self, stage: Rerank, before: Ranking, source: SourceStage | None) -> Ranking:
        """Re-ranks candidates. `source`: the stage that gave them, None where it is no source."""
        if not before:
            return before
        name = reranker_name(stage)
        model = self._given.scores.get(name)
        if model is None:
            raise NotCollected(name)
        mixture = None if source is None else self._mixtures.get((source, name, stage.top))
        if mixture is None:
            try:
                mixture = Mixture(before, {hit.id: model.scores[hit.id] for hit in before[: stage.top]})
            except KeyError as error:
                raise NotCollected(f"{stage.backend}: a score of {error}") from error
            if source is not None:
                self._mixtures[source, name, stage.top] = mixture
        return reranked(stage, mixture, model.weight)
