"""The page of a replay says what its figures rest on, and prints the winner as a pipeline that behaves as the run's."""

from collections.abc import Mapping

import numpy as np
import pytest
import yaml

from evaluator.replay.cost_model import LegBounds, StageSample, cost_model
from evaluator.replay.grid import Grid
from evaluator.replay.page import render_replay, winner_yaml
from evaluator.replay.report import RecordedArm, ReplayReport, replay_report
from evaluator.run_judgments import JudgmentsOrigin
from services.contracts.pipelines import Pipeline

LEG = {"kind": "retrieve", "id": "bm25", "backend": "lexical", "top": 50}
RERANK = {"kind": "rerank", "id": "rerank", "top": 20, "weight": 0.4, "on_failure": "skip"}


def report(
    times_valid: bool | None = True,
    caches: bool = False,
    lost: int = 0,
    arms: Mapping[str, RecordedArm] | None = None,
    within_ms: float | None = None,
) -> ReplayReport:
    """Of two pipelines on ten queries: the one that re-ranks is better, but `lost` of its answers are not known."""
    stages = ([LEG], [{**LEG, "on_failure": "skip"}, RERANK])
    pipelines = [Pipeline.model_validate({"name": f"p{at}", "stages": one}) for at, one in enumerate(stages)]
    found = replay_report(
        made_from={},
        experiment="small",
        dataset="shop",
        judgments=JudgmentsOrigin(file="test.tsv", sha256="a" * 64, added=()),
        metric="nDCG@10",
        seed=1,
        grid=Grid(),
        pipelines=pipelines,
        values=np.array([[0.4] * 10, [np.nan] * lost + [0.6] * (10 - lost)]),
        costs=cost_model([StageSample("lexical", 50, 4.0)], LegBounds({}, 10)),
        times_valid=times_valid,
        caches=caches,
        arms=arms or {},
        within_ms=within_ms,
        checked=(),
    )
    assert found is not None
    return found


def test_the_winner_keeps_its_re_ranker_with_all_settings() -> None:
    found = report()
    winner = Pipeline.model_validate(yaml.safe_load(winner_yaml(found)))
    assert winner.stages == found.choice.pipeline.stages
    assert winner.stages[1].model_dump() == {**RERANK, "backend": "reranker"}


@pytest.mark.parametrize(
    ("times_valid", "caches", "said"),
    [
        (False, False, "The times of the run are not valid"),
        (None, False, "Whether the times of the run are valid is not known: run `report`, then `replay` again."),
        (True, True, "allowed to answer the run from their caches"),
    ],
)
def test_what_makes_costs_doubtful_is_said(times_valid: bool | None, caches: bool, said: str) -> None:
    assert said in render_replay(report(times_valid, caches))
    assert said not in render_replay(report())


def test_the_page_names_the_judgments() -> None:
    assert "Judged by test.tsv of the dataset (sha256 aaaaaaaaaaaa)." in render_replay(report())


def test_pipelines_that_are_left_out_are_counted_and_the_choice_is_said_to_be_of_the_rest() -> None:
    said = "1 pipelines are left out: they need scores or legs that were not collected. The choice is among the rest."
    assert said in render_replay(report(lost=1))
    assert "left out" not in render_replay(report())


def test_a_pipeline_of_the_run_that_is_better_than_the_choice_is_named() -> None:
    arms = {"better": RecordedArm(mean=0.7, cost_ms=9.0), "equal": RecordedArm(mean=0.6, cost_ms=9.0)}
    assert "better of the run is better: nDCG@10 0.7000." in render_replay(report(arms=arms))
    assert "equal of the run" not in render_replay(report(arms=arms))
    assert "of the run is better" not in render_replay(report(arms=arms, within_ms=8.0))  # which it exceeds
