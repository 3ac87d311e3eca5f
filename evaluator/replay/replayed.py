"""Computes what pipelines would have answered to a query, from candidates and the scores of a model. Pure.

Fusion and mixing are the gateway's own (services/ranking/stages.py). Pipelines with the same source share its ranking,
fusions with the same inputs the alignment of these, re-rankings of the same candidates their z-scores.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import assert_never

from evaluator.attribution.candidates import ModelScores, QueryCandidates
from evaluator.attribution.collect import leg_name, reranker_name
from services.contracts.pipelines import Cut, Fuse, LaterStage, Pipeline, Rerank, Retrieve, SourceStage
from services.contracts.scored import Ranking
from services.ranking.fusion import AlignedLegs, Leg, Mixture
from services.ranking.stages import fused, fused_least_score, needs_least_scores, reranked


class NotCollected(Exception):
    """A leg or a score that the pipeline needs was not collected; a least score also where there is none."""


@dataclass(frozen=True, slots=True)
class LaterSteps:
    """The stages of a pipeline after its source, each with the number of its hits that anything after it looks at.

    `number`: of the pipeline. `deepest`: hits of the source that anything looks at: what stands below never rises.
    """

    number: int
    steps: tuple[tuple[LaterStage, int], ...]
    deepest: int


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """Pipelines by their source. `top`: hits of an answer."""

    top: int
    pipelines: int
    later: dict[SourceStage, list[LaterSteps]]


def replay_plan(pipelines: Sequence[Pipeline], top: int) -> ReplayPlan:
    """Groups pipelines by source."""
    later: dict[SourceStage, list[LaterSteps]] = {}
    for number, pipeline in enumerate(pipelines):
        steps, deepest = [], top
        for one in reversed(pipeline.identified.later):
            steps.append((one.stage, deepest))
            deepest = max(deepest, one.stage.top)
        one_source = later.setdefault(pipeline.identified.source.stage, [])
        one_source.append(LaterSteps(number, tuple(reversed(steps)), deepest))
    return ReplayPlan(top, len(pipelines), later)


class ReplayedQuery:
    """Replays pipelines on one query."""

    def __init__(self, given: QueryCandidates) -> None:
        self._given = given
        self._aligned: dict[tuple[SourceStage, ...], AlignedLegs] = {}

    def answers(self, plan: ReplayPlan) -> tuple[list[tuple[str, ...]], list[int | None]]:
        """Returns the distinct answers, and for each pipeline the number of its own; None: not collected."""
        distinct: dict[tuple[str, ...], int] = {}
        numbers: list[int | None] = [None] * plan.pipelines
        for source, pipelines in plan.later.items():
            try:
                ranking = self._sourced(source, max(one.deepest for one in pipelines))
            except NotCollected:
                continue
            reranking = _Reranking(self._given, ranking)
            for one in pipelines:
                try:
                    hits = reranking.ranking(one.steps)[: plan.top]
                except NotCollected:
                    continue
                answer = tuple(hit.id for hit in hits)
                numbers[one.number] = distinct.setdefault(answer, len(distinct))
        return list(distinct), numbers

    def _sourced(self, stage: SourceStage, top: int | None = None) -> Ranking:
        match stage:
            case Retrieve():
                found = self._given.legs.get(leg_name(stage))
                if found is None:
                    raise NotCollected(leg_name(stage))
                return found.ranking[: stage.top][:top]
            case Fuse():
                if stage.inputs not in self._aligned:
                    legs = [Leg(self._sourced(one), self._least_score(one)) for one in stage.inputs]
                    self._aligned[stage.inputs] = AlignedLegs(legs)
                if needs_least_scores(stage) and None in map(self._least_score, stage.inputs):
                    raise NotCollected("a least score")
                return fused(stage, self._aligned[stage.inputs], top)
            case _:
                assert_never(stage)

    def _least_score(self, stage: SourceStage) -> float | None:
        if isinstance(stage, Retrieve):
            return self._given.legs[leg_name(stage)].least_score
        return fused_least_score(stage)


class _Reranking:
    """Re-ranks one source's ranking again and again; keeps what each re-ranker and depth have in common."""

    def __init__(self, given: QueryCandidates, source: Ranking) -> None:
        self._scores = given.scores
        self._source = source
        self._mixtures: dict[tuple[str, int], Mixture] = {}

    def ranking(self, steps: Iterable[tuple[LaterStage, int]]) -> Ranking:
        """Returns what later stages make of the source's ranking. Raises NotCollected."""
        ranking = self._source
        for stage, top in steps:
            match stage:
                case Rerank():
                    ranking = self._reranked(stage, ranking, top)
                case Cut():
                    ranking = ranking[: stage.top]
                case _:
                    assert_never(stage)
        return ranking

    def _reranked(self, stage: Rerank, before: Ranking, top: int) -> Ranking:
        if not before:
            return before
        name = reranker_name(stage)
        model = self._scores.get(name)
        if model is None:
            raise NotCollected(name)
        if before is not self._source:
            return reranked(stage, _mixture(stage, before, model), model.weight, top)
        key = name, stage.top
        if key not in self._mixtures:
            self._mixtures[key] = _mixture(stage, before, model)
        return reranked(stage, self._mixtures[key], model.weight, top)


def _mixture(stage: Rerank, before: Ranking, model: ModelScores) -> Mixture:
    try:
        return Mixture(before, {one.id: model.scores[one.id] for one in before[: stage.top]})
    except KeyError as error:
        raise NotCollected(f"{stage.backend}: a score of {error}") from error
