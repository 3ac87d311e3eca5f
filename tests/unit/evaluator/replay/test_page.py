"""The page of a replay says what its figures rest on, and prints the winner as a pipeline that behaves as the run's."""

from collections.abc import Mapping

import numpy as np
import pytest
import yaml

from evaluator.pages.markdown_page import markdown_parts
from evaluator.pages.page_blocks import ChartImage, Listing
from evaluator.pages.step_page import render_step_markdown
from evaluator.replay.cost_model import LegBounds, StageSample, cost_model
from evaluator.replay.grid import Grid
from evaluator.replay.page import replay_page, winner_yaml
from evaluator.replay.report import RecordedArm, ReplayReport, replay_report
from evaluator.steps.run_judgments import JudgmentsOrigin
from services.contracts.pipelines import Pipeline
from tests.support.charted_blocks import charts_without_table, tables_of

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


def markdown(found: ReplayReport) -> str:
    return render_step_markdown(replay_page(found))


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
    assert said in markdown(report(times_valid, caches))
    assert said not in markdown(report())


def test_the_page_names_the_judgments() -> None:
    assert "Judged by test.tsv of the dataset (sha256 aaaaaaaaaaaa)." in markdown(report())


def test_pipelines_that_are_left_out_are_counted_and_the_choice_is_said_to_be_of_the_rest() -> None:
    rest = "scores or legs that were not collected. The choice is among the rest."
    one = report(lost=1)
    two = one.model_copy(update={"left_out": {**one.left_out, "another": 1}})
    assert f"1 pipeline is left out: it needs {rest}" in markdown(one)
    assert f"2 pipelines are left out: they need {rest}" in markdown(two)
    assert "left out" not in markdown(report())


def test_a_pipeline_of_the_run_that_is_better_than_the_choice_is_named() -> None:
    arms = {"better": RecordedArm(mean=0.7, cost_ms=9.0), "equal": RecordedArm(mean=0.6, cost_ms=9.0)}
    assert "better of the run is better: nDCG@10 0.7000." in markdown(report(arms=arms))
    assert "equal of the run" not in markdown(report(arms=arms))
    assert "of the run is better" not in markdown(report(arms=arms, within_ms=8.0))  # which it exceeds


def test_the_honest_estimate_stands_beside_the_tuned_one() -> None:
    tables = {one.name: one.rows for one in tables_of(replay_page(report()).blocks)}
    assert tables["choice"] == [
        ["estimate", "nDCG@10", "folds", "folds that chose it"],
        ["tuned, on the queries of the choice", "0.6000", "–", "–"],
        ["honest, on held-out queries", "0.6000", "5", "5"],
    ]


def test_the_chart_of_the_front_has_its_table_beside_it() -> None:
    page = replay_page(report())
    assert [one.path for one in page.blocks if isinstance(one, ChartImage)] == list(page.svgs)
    assert charts_without_table(page.blocks) == []


def test_the_winner_is_a_block_of_code_that_its_own_lines_do_not_end() -> None:
    listing = Listing("yaml", "a pipeline", "name: x\n```\n````\n")
    assert list(markdown_parts([listing])) == ["`````yaml\nname: x\n```\n````\n`````"]
    found = report()
    assert f"```yaml\n{winner_yaml(found)}```" in markdown(found)
