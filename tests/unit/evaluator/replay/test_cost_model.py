"""What a pipeline is estimated to cost, from the measured times of stages."""

from collections.abc import Mapping

import pytest

from evaluator.replay.cost_model import FUSION, LegBounds, StageSample, arm_samples, cost_model
from services.contracts.pipelines import Pipeline

LEGS = [{"kind": "retrieve", "id": name, "backend": name, "top": 100} for name in ("lexical", "dense")]
FUSE = {"kind": "fuse", "id": "fuse", "inputs": LEGS}
RERANK = {"kind": "rerank", "id": "rerank", "top": 100}
SAMPLES = [
    StageSample("lexical", 100, 10.0),
    StageSample("lexical", 1000, 28.0),
    StageSample("dense", 100, 30.0),
    StageSample("dense", 256, 24.0),  # never falls with depth
    StageSample(FUSION, 200, 1.0),
    StageSample("reranker", 100, 500.0),
]
ANY = LegBounds({}, 10)
MS = {"lexical": 10.0, "dense": 30.0, "fuse": 1.0, "rerank": 400.0}


def pipeline(*stages: Mapping[str, object]) -> Pipeline:
    return Pipeline.model_validate({"name": "p", "stages": list(stages)})


def test_the_slowest_leg_counts_and_a_re_ranker_by_its_candidates() -> None:
    model = cost_model(SAMPLES, ANY)
    assert model.ms(pipeline(FUSE, {**RERANK, "top": 20})) == pytest.approx(27 + 1 + 100)
    assert model.ms(pipeline({**LEGS[0], "top": 500}, {"kind": "cut", "top": 10})) == pytest.approx(18)
    assert model.ms(pipeline({"kind": "retrieve", "backend": "sparse"})) is None


def test_a_re_ranker_costs_no_more_than_the_candidates_that_reach_it() -> None:
    model = cost_model(SAMPLES, LegBounds({"lexical": 40}, 10))
    assert model.ms(pipeline(LEGS[1], {"kind": "cut", "top": 10}, RERANK)) == pytest.approx(27 + 50)
    assert model.ms(pipeline(LEGS[0], RERANK)) == pytest.approx(model.lines["lexical"].at(40) + 200)


@pytest.mark.parametrize(
    ("stages", "pairs"),
    [
        ([FUSE, RERANK], 100),
        ([FUSE, {"kind": "cut", "top": 80}, RERANK], 80),
        ([LEGS[0], RERANK], 25),  # the leg gives no more
        ([{**LEGS[1], "top": 7}, RERANK], 7),
        ([FUSE, {**RERANK, "top": 60}], 60),
    ],
)
def test_the_sample_of_a_re_ranker_is_of_the_pairs_that_it_scored(stages: list[dict[str, object]], pairs: int) -> None:
    found = arm_samples(pipeline(*stages), MS, LegBounds({"lexical": 25}, 10))
    assert found[-1] == StageSample("reranker", pairs, 400.0)


def test_samples_of_a_fusion_are_of_the_hits_of_its_inputs() -> None:
    found = arm_samples(pipeline(FUSE), MS, LegBounds({"lexical": 25}, 10))
    assert found == [
        StageSample("lexical", 25, 10.0),
        StageSample("dense", 100, 30.0),
        StageSample(FUSION, 125, 1.0),
    ]


def test_a_stage_without_a_time_gives_no_sample() -> None:
    assert [one.what for one in arm_samples(pipeline(FUSE, RERANK), {"dense": 3.0}, ANY)] == ["dense"]


def test_a_leg_that_gave_no_hits_costs_what_it_took() -> None:
    model = cost_model([StageSample("lexical", 0, 4.0)], LegBounds({"lexical": 0}, 10))
    assert model.ms(pipeline(LEGS[0])) == 4.0


def test_a_leg_alone_is_timed_and_estimated_at_the_hits_of_a_request() -> None:
    assert arm_samples(pipeline(LEGS[0]), {"lexical": 5.0}, ANY) == [StageSample("lexical", 10, 5.0)]
    assert cost_model(SAMPLES, ANY).ms(pipeline(LEGS[0])) == pytest.approx(8.2)


def test_the_line_of_a_stage_is_fitted_to_all_its_medians() -> None:
    samples = [StageSample("lexical", hits, ms) for hits, ms in [(10, 5.0), (100, 9.0), (100, 11.0), (190, 9.0)]]
    line = cost_model(samples, ANY).lines["lexical"]
    assert (line.at(100), line.slope) == (pytest.approx(8.0), pytest.approx(4 / 180))


def test_no_line_begins_below_zero() -> None:
    line = cost_model([StageSample("lexical", hits, ms) for hits, ms in [(10, 1.0), (20, 4.0)]], ANY).lines["lexical"]
    assert (line.start, line.slope) == (0.0, pytest.approx(0.18))
