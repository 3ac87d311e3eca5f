"""A replay shares the work of many pipelines and answers as each of them alone would."""

import random

import pytest

from evaluator.attribution.candidates import ModelScores, QueryCandidates
from evaluator.replay.replayed import replayed
from services.contracts.pipelines import Cut, Fuse, Pipeline, Retrieve, SourceStage
from services.contracts.query import StageCandidates
from services.contracts.scored import Ranking, Scored
from services.ranking.fusion import AlignedLegs, Leg, Mixture, ranked
from services.ranking.stages import fused, reranked

TOP = 5
FLOORS = {"lexical": 0.0, "dense": -1.0}
LEGS = {name: {"kind": "retrieve", "id": name, "backend": name, "top": 30} for name in FLOORS}
RRF = {"kind": "fuse", "id": "rrf", "inputs": list(LEGS.values())}
Z_SCORES = {**RRF, "method": "weighted", "normalisation": "z-score", "weights": [0.3, 0.7]}
MIN_MAX = {**Z_SCORES, "normalisation": "min-max", "inputs": [{**LEGS["lexical"], "top": 8}, LEGS["dense"]]}
NESTED = {"kind": "fuse", "id": "outer", "inputs": [RRF, {**LEGS["lexical"], "id": "again", "top": 20}]}
SOURCES = (LEGS["lexical"], RRF, {**RRF, "k": 7}, Z_SCORES, MIN_MAX, NESTED)
LATER: tuple[list[dict[str, object]], ...] = (
    [],
    [{"kind": "rerank", "top": 10}],
    [{"kind": "rerank", "top": 10, "weight": 0.9}],
    [{"kind": "rerank", "top": 3, "weight": 1.0}],
    [{"kind": "cut", "top": 4}, {"kind": "rerank", "top": 10}],
    [{"kind": "rerank", "top": 12, "weight": 0.5}, {"kind": "rerank", "top": 6, "weight": 1.0}],
    [{"kind": "rerank", "top": 10, "passages": {"tokens": 64}}],
)
PIPELINES = [
    Pipeline.model_validate({"name": "p", "stages": [source, *later]}) for later in LATER for source in SOURCES
]


def candidates(seed: int) -> QueryCandidates:
    """A query's candidates with many ties, all of them scored by the re-ranker."""
    dice = random.Random(seed)
    names = [f"d{number:02}" for number in range(50)]
    legs = {
        name: StageCandidates(
            ranking=ranked(Scored(name, dice.choice([0.5, 1.5, 2.0, 3.5])) for name in dice.sample(names, 30)),
            least_score=floor,
        )
        for name, floor in FLOORS.items()
    }
    scores = {
        name: ModelScores(weight=0.4, scores={document: dice.choice([0.1, 0.7, 2.0]) for document in names})
        for name in ("reranker", "reranker-passages64-0")
    }
    return QueryCandidates(query=f"q{seed}", arms={}, legs=legs, scores=scores)


def alone(given: QueryCandidates, pipeline: Pipeline) -> tuple[str, ...]:
    """What a pipeline answers, stage after stage, with whole rankings and nothing shared."""
    ranking = _sourced(given, pipeline.identified.source.stage)
    for stage in pipeline.identified.later:
        if isinstance(stage.stage, Cut):
            ranking = ranking[: stage.stage.top]
        else:
            model = given.scores["reranker-passages64-0" if getattr(stage.stage, "passages", None) else "reranker"]
            head = {hit.id: model.scores[hit.id] for hit in ranking[: stage.stage.top]}
            ranking = reranked(stage.stage, Mixture(ranking, head), model.weight)
    return tuple(hit.id for hit in ranking[:TOP])


def _sourced(given: QueryCandidates, stage: SourceStage) -> Ranking:
    if isinstance(stage, Retrieve):
        return given.legs[stage.backend].ranking[: stage.top]
    legs = [
        Leg(_sourced(given, source), 0.0 if isinstance(source, Fuse) else FLOORS[source.backend])
        for source in stage.inputs
    ]
    return fused(stage, AlignedLegs(legs))


@pytest.mark.parametrize("seed", range(3))
def test_many_pipelines_at_once_answer_as_each_alone(seed: int) -> None:
    given = candidates(seed)
    answers = replayed(given, PIPELINES, TOP)
    assert [answers.answer(at) for at in range(len(PIPELINES))] == [alone(given, pipeline) for pipeline in PIPELINES]
    assert len(set(answers.distinct)) == len(answers.distinct)


def test_pipelines_that_need_what_was_not_collected_are_left_out() -> None:
    given = candidates(1)
    given.scores["reranker"].scores.pop(given.legs["lexical"].ranking[4].id)
    stages = (LEGS["lexical"], {"kind": "retrieve", "backend": "sparse"}, RRF)
    asked = [
        [source, *later] for source in stages for later in ([], [{"kind": "rerank", "top": 4}], [{"kind": "rerank"}])
    ]
    pipelines = [Pipeline.model_validate({"name": "p", "stages": stages}) for stages in asked]
    numbers = replayed(given, pipelines, TOP).numbers
    assert [number is not None for number in numbers[:6]] == [True, True, False, False, False, False]
    assert numbers[8] is None


def test_a_fusion_by_least_scores_is_left_out_where_a_leg_has_none() -> None:
    given = candidates(1)
    legs = {**given.legs, "dense": given.legs["dense"].model_copy(update={"least_score": None})}
    by_least = {**Z_SCORES, "normalisation": "theoretical-min"}
    pipelines = [Pipeline.model_validate({"name": "p", "stages": [source]}) for source in (by_least, MIN_MAX)]
    for one, answered in ((given, True), (given.model_copy(update={"legs": legs}), False)):
        assert [number is not None for number in replayed(one, pipelines, TOP).numbers] == [answered, True]
