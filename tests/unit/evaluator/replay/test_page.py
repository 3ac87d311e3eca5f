"""The page of a replay says what its figures rest on, and prints the winner as a pipeline that behaves as the run's."""

import numpy as np
import pytest
import yaml

from evaluator.replay.cost_model import StageSample, cost_model
from evaluator.replay.grid import Grid
from evaluator.replay.page import render_replay, winner_yaml
from evaluator.replay.report import ReplayReport, replay_report
from evaluator.run_judgments import JudgmentsOrigin
from services.contracts.pipelines import Pipeline

LEG = {"kind": "retrieve", "id": "bm25", "backend": "lexical", "top": 50}
RERANK = {"kind": "rerank", "id": "rerank", "top": 20, "weight": 0.4, "on_failure": "skip"}


def report(times_valid: bool | None = True, caches: bool = False) -> ReplayReport:
    """Of two pipelines on ten queries: the one that re-ranks is better on all of them."""
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
        values=np.array([[0.4] * 10, [0.6] * 10]),
        costs=cost_model([StageSample("lexical", 50, 4.0)], {}),
        times_valid=times_valid,
        caches=caches,
        arms={},
        within_ms=None,
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
