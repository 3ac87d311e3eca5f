"""The choice among replayed points, its honest estimate, the front, and what a pipeline is estimated to cost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.attribution.candidates import AskedLeg, CandidatesReport
from evaluator.replay.choice import best, folds, front, honest_mean
from evaluator.replay.cost_model import StageSample, cost_model
from evaluator.replay.grid import Grid, points
from services.contracts.pipelines import Pipeline, Retrieve

LEXICAL = Retrieve(kind="retrieve", id="lexical", backend="lexical", top=1000)
DENSE = Retrieve(kind="retrieve", id="dense", backend="dense", top=256)


def collected(*legs: Retrieve, rerankers: tuple[str, ...] = ()) -> CandidatesReport:
    asked = tuple(AskedLeg(name=str(leg.id), retrieve=leg, exact=None) for leg in legs)
    return CandidatesReport(made_from={}, pipelines={}, legs=asked, rerankers=rerankers, top=10, queries=1, failed=0)


def test_the_front_has_no_point_that_another_beats_in_both() -> None:
    assert front([0.5, 0.7, 0.6, 0.7, 0.4], [10.0, 30.0, 40.0, 30.0, 5.0]) == [4, 0, 1]


@given(st.integers(2, 60), st.integers(2, 5), st.integers(0, 100))
def test_folds_hold_every_query_once(queries: int, count: int, seed: int) -> None:
    dealt = folds(queries, count, seed)
    assert sorted(query for fold in dealt for query in fold) == list(range(queries))
    assert max(map(len, dealt)) - min(map(len, dealt)) <= 1


def test_of_points_with_the_same_mean_the_cheapest_is_chosen() -> None:
    assert best([0.5, 0.6, 0.6], [1.0, 9.0, 3.0]) == 2


def test_points_of_pure_chance_are_estimated_lower_than_they_were_tuned() -> None:
    values = np.random.default_rng(7).random((400, 40))  # no point is better than another
    honest, _ = honest_mean(values, [1.0] * 400, 5, seed=7)
    assert values.mean(axis=1).max() > 0.6
    assert abs(honest - 0.5) < 0.07


def test_a_point_that_is_better_on_every_query_is_chosen_in_every_fold() -> None:
    values = np.array([[0.1] * 10, [0.9] * 10, [0.5] * 10])
    assert honest_mean(values, [1.0, 2.0, 3.0], 5, seed=1) == (pytest.approx(0.9), [1] * 5)


def test_no_point_of_a_grid_stands_twice_and_each_is_a_pipeline() -> None:
    found = points(Grid(), collected(LEXICAL, DENSE, rerankers=("reranker",)))
    assert len({one.fingerprint for one in found}) == len(found) > 500
    deepest = {stage.top for one in found for stage in _legs(one) if stage.backend == "dense"}
    assert max(deepest) == 256  # as deep as it was asked
    assert min(deepest) == 10


def test_of_legs_that_differ_in_the_beam_alone_the_deepest_is_fused() -> None:
    wide = Retrieve(kind="retrieve", id="wide", backend="dense", beam=400, top=400)
    found = points(Grid(), collected(LEXICAL, DENSE, wide))
    assert {stage.id for one in found for stage in _legs(one)} == {"lexical", "wide"}


def test_the_slowest_leg_counts_and_a_re_ranker_by_its_candidates() -> None:
    model = cost_model(
        [
            StageSample("lexical", 100, 10.0),
            StageSample("lexical", 1000, 28.0),
            StageSample("dense", 100, 30.0),
            StageSample("dense", 256, 24.0),  # never falls with depth
            StageSample("fuse", 200, 1.0),
            StageSample("reranker", 100, 500.0),
        ]
    )
    legs = [{"kind": "retrieve", "backend": name, "top": 100} for name in ("lexical", "dense")]
    rerank = {"kind": "rerank", "top": 20}
    fused = Pipeline.model_validate({"name": "p", "stages": [{"kind": "fuse", "inputs": legs}, rerank]})
    assert model.ms(fused) == pytest.approx(30 + 1 + 100)
    deep = Pipeline.model_validate({"name": "p", "stages": [{**legs[0], "top": 500}]})
    assert model.ms(deep) == pytest.approx(18)
    unknown = Pipeline.model_validate({"name": "p", "stages": [{"kind": "retrieve", "backend": "sparse"}]})
    assert model.ms(unknown) is None


def _legs(pipeline: Pipeline) -> list[Retrieve]:
    return [one.stage for one in pipeline.identified if isinstance(one.stage, Retrieve)]
