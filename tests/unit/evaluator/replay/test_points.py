"""What is tried are the run's pipelines, with other weights, normalisations and depths of re-ranking."""

from collections.abc import Mapping, Sequence

import pytest

from evaluator.errors import EvaluationError
from evaluator.replay.points import VariedPipeline, varied_pipelines
from services.contracts.pipelines import Fuse, Pipeline, Rerank

LEGS = [{"kind": "retrieve", "backend": name, "top": 100, "on_failure": "skip"} for name in ("lexical", "dense")]
FUSE = {"kind": "fuse", "k": 7, "inputs": LEGS}
RERANK = {"kind": "rerank", "top": 30, "weight": 0.3, "on_failure": "skip"}


def varied(*pipelines: Sequence[Mapping[str, object]]) -> list[VariedPipeline]:
    named = {
        f"p{at}": Pipeline.model_validate({"name": f"p{at}", "stages": stages}) for at, stages in enumerate(pipelines)
    }
    return varied_pipelines(named, 10)


def test_a_pipeline_stands_first_as_it_is_and_none_stands_twice() -> None:
    points = varied([LEGS[0]], [FUSE], [FUSE, RERANK])
    assert [point.arm for point in points] == ["p0"] + ["p1"] * (1 + 9 * 4) + ["p2"] * (37 * (1 + 4 * 3))
    assert len({point.pipeline.fingerprint for point in points}) == len(points)
    own = {arm: next(point.pipeline for point in points if point.arm == arm) for arm in ("p1", "p2")}
    assert own["p2"] == Pipeline.model_validate({"name": "p2", "stages": [FUSE, RERANK]})
    assert own["p1"].stages == own["p2"].stages[:1]


def test_weights_normalisation_and_re_ranking_vary_and_all_else_stays() -> None:
    stages = [point.pipeline.stages for point in varied([FUSE, {"kind": "cut", "top": 40}, RERANK])]
    fusions = [first for first, *_ in stages if isinstance(first, Fuse)]
    assert {fuse.weights[0] for fuse in fusions if fuse.weights} == {tenths / 10 for tenths in range(1, 10)}
    assert all(sum(fuse.weights) == pytest.approx(1) for fuse in fusions if fuse.weights)
    assert {(fuse.method, fuse.k, fuse.normalisation) for fuse in fusions} == {
        ("rrf", 7, "min-max"),
        *(("weighted", 60, name) for name in ("min-max", "z-score", "theoretical-min")),
    }
    assert {fuse.inputs for fuse in fusions} == {fusions[0].inputs}
    rerankings = [last for *_, last in stages if isinstance(last, Rerank)]
    assert {(rerank.top, rerank.weight) for rerank in rerankings} == {
        (30, 0.3), *((depth, weight) for depth in (10, 20, 50, 100) for weight in (None, 0.5, 1.0)),
    }  # fmt: skip
    assert {rerank.on_failure for rerank in rerankings} == {"skip"}
    assert {cut.top for _, cut, _ in stages if not isinstance(cut, Fuse)} == {40}


def test_a_pipeline_with_a_leg_shallower_than_the_answers_is_not_tried() -> None:
    assert varied([{**LEGS[0], "top": 5}, RERANK]) == []


def test_too_many_combinations_are_refused() -> None:
    inputs = [{**LEGS[0], "preset": f"p{number}"} for number in range(5)]
    with pytest.raises(EvaluationError, match="more than 20000 combinations"):
        varied([{"kind": "fuse", "inputs": inputs}, RERANK, {**RERANK, "top": 12}])
