"""The probes of an attribution are pipelines that a gateway takes, for any number and any names of legs."""

import pytest

from evaluator.attribution.collect import RERANKED, probes_of, reranker_name
from services.contracts.pipelines import Fuse, Pipeline, Rerank


def probed(*names: str) -> list[Pipeline]:
    """Re-ranking probes of a run with a leg of each preset, and a re-ranker."""
    stages = [[{"kind": "retrieve", "backend": "lexical", "preset": name}, {"kind": "rerank"}] for name in names]
    pipelines = [Pipeline.model_validate({"name": "p", "stages": listed}) for listed in stages]
    return [pipeline for _, pipeline in probes_of(pipelines, frozenset()).rerankings()]


@pytest.mark.parametrize(("legs", "fused"), [(1, []), (2, [2]), (8, [8]), (9, [8]), (18, [8, 8, 2])])
def test_legs_are_fused_in_groups_that_a_fusion_takes(legs: int, fused: list[int]) -> None:
    probes = probed(*(f"preset-{number}" for number in range(legs)))
    sources = [pipeline.identified.source.stage for pipeline in probes]
    assert [len(source.inputs) for source in sources if isinstance(source, Fuse)] == fused
    assert len(probes) == legs + len(fused)
    assert all(isinstance(pipeline.stages[-1], Rerank) for pipeline in probes)


def test_scores_of_passages_are_asked_beside_those_of_whole_documents() -> None:
    passages = [None, {"tokens": 128, "overlap": 32}, {"tokens": 128}]
    leg = {"kind": "retrieve", "backend": "lexical"}
    stages = [[leg, {"kind": "rerank", "top": top, "passages": kind}] for kind in passages for top in (10, 20)]
    pipelines = [Pipeline.model_validate({"name": "p", "stages": listed}) for listed in stages]
    rerankings = {name: pipeline.stages[-1] for name, pipeline in probes_of(pipelines, frozenset()).rerankings()}
    assert list(rerankings) == ["reranker", "reranker-passages128-32", "reranker-passages128-0"]
    assert all(isinstance(stage, Rerank) and stage.top == RERANKED for stage in rerankings.values())
    assert [reranker_name(stage) for stage in rerankings.values() if isinstance(stage, Rerank)] == list(rerankings)


def test_backends_may_be_called_as_a_stage_or_a_timing() -> None:
    names = ("all", "probe", "total", "exact", "include")
    legs = [{"kind": "retrieve", "id": f"leg-{name}", "backend": name} for name in names]
    pipeline = Pipeline.model_validate({"name": "p", "stages": [{"kind": "fuse", "inputs": legs}, {"kind": "rerank"}]})
    probes = probes_of([pipeline], frozenset({"total"}))
    assert len(list(probes.every())) == 5 + 1 + 5 + 1  # legs, the exact one, re-rankings of legs, and of their fusion


@pytest.mark.parametrize(
    ("leg", "asked"),
    [
        ({"top": 200, "beam": 400}, 384),  # with 400 hits and 16 for ties its beam would be wider than the pipeline's
        ({"top": 100}, 240),
        ({"top": 200, "beam": 100}, 200),
        ({"top": 100, "exact": True}, 1_000),
    ],
)
def test_an_approximate_leg_is_asked_as_deep_as_its_own_beam_reaches(leg: dict[str, object], asked: int) -> None:
    stage = {"kind": "retrieve", "backend": "dense", **leg}
    pipeline = Pipeline.model_validate({"name": "p", "stages": [stage]})
    (asked_leg,) = probes_of([pipeline], frozenset({"dense"})).legs
    assert asked_leg.retrieve.top == asked
