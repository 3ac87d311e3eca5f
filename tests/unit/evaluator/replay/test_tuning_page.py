"""The page of a replay says what its figures rest on, and prints the winner as a pipeline that behaves as the run's."""

from collections.abc import Mapping

import numpy as np
import yaml

from evaluator.pages.markdown_page import markdown_parts, render_markdown
from evaluator.pages.page_blocks import Listing
from evaluator.replay.points import VariedPipeline
from evaluator.replay.tuning_page import replay_page, winner_yaml
from evaluator.replay.tuning_report import ReplayReport, tried_points
from evaluator.steps.run_judgments import JudgmentsOrigin
from services.contracts.pipelines import Pipeline
from tests.support.charted_blocks import tables_of

LEG = {"kind": "retrieve", "id": "bm25", "backend": "lexical", "top": 50}
RERANK = {"kind": "rerank", "id": "rerank", "top": 20, "weight": 0.4, "on_failure": "skip"}


def report(lost: int = 0, arms: Mapping[str, float] | None = None) -> ReplayReport:
    """Of two pipelines on ten queries: the one that re-ranks is better, but `lost` of its answers are not known."""
    stages = {"bm25": [LEG], "reranked": [{**LEG, "on_failure": "skip"}, RERANK]}
    varied = [
        VariedPipeline(arm, Pipeline.model_validate({"name": arm, "stages": listed})) for arm, listed in stages.items()
    ]
    values = np.array([[0.4] * 10, [np.nan] * lost + [0.6] * (10 - lost)])
    points, left_out, choice = tried_points(varied, values, seed=1)
    assert choice is not None
    return ReplayReport(
        made_from={},
        experiment="small",
        dataset="shop",
        judgments=JudgmentsOrigin(file="test.tsv", sha256="a" * 64, added=()),
        metric="nDCG@10",
        seed=1,
        queries=10,
        arms={"bm25": 0.4, "reranked": 0.5, **(arms or {})},
        points=points,
        left_out=left_out,
        choice=choice,
    )


def markdown(tuned: ReplayReport) -> str:
    page = replay_page(tuned)
    return render_markdown(page.title, page.blocks)


def test_the_winner_keeps_its_re_ranker_with_all_settings() -> None:
    tuned = report()
    winner = Pipeline.model_validate(yaml.safe_load(winner_yaml(tuned)))
    assert winner.stages == tuned.choice.pipeline.stages
    assert winner.stages[1].model_dump() == {**RERANK, "backend": "reranker"}


def test_pipelines_that_are_left_out_are_counted_and_the_choice_is_said_to_be_of_the_rest() -> None:
    rest = "scores or legs that were not collected. The choice is among the rest."
    tuned = report(lost=1)
    two = tuned.model_copy(update={"left_out": {**tuned.left_out, "another": 1}})
    assert f"1 pipeline is left out: it needs {rest}" in markdown(tuned)
    assert f"2 pipelines are left out: they need {rest}" in markdown(two)
    assert "left out" not in markdown(report())


def test_no_choice_is_made_where_every_pipeline_lacks_something() -> None:
    varied = [VariedPipeline("p", Pipeline.model_validate({"name": "p", "stages": [LEG]}))]
    _, left_out, choice = tried_points(varied, np.array([[np.nan, 0.5]]), seed=1)
    assert (list(left_out.values()), choice) == ([1], None)


def test_a_pipeline_of_the_run_that_is_better_than_the_choice_is_named() -> None:
    page = markdown(report(arms={"better": 0.7, "equal": 0.6}))
    assert "better of the run is better than the choice." in page
    assert "equal of the run" not in page


def test_the_gain_of_each_pipeline_and_the_honest_estimate_stand_in_tables() -> None:
    tables = {table.name: table.rows for table in tables_of(replay_page(report(arms={"lost": 0.1})).blocks)}
    assert tables["tuned"][1:] == [
        ["bm25 (run)", "0.4000"],
        ["bm25: lexical 50", "0.4000"],
        ["reranked (run)", "0.5000"],
        ["reranked: lexical 50 → reranker 20, weight 0.4", "0.6000"],
        ["lost (run)", "0.1000"],
    ]
    assert tables["choice"][1:] == [
        ["tuned, on the queries of the choice", "0.6000", "–", "–"],
        ["honest, on held-out queries", "0.6000", "5", "5"],
    ]


def test_the_winner_is_a_block_of_code_that_its_own_lines_do_not_end() -> None:
    listing = Listing("yaml", "a pipeline", "name: x\n```\n````\n")
    assert list(markdown_parts([listing])) == ["`````yaml\nname: x\n```\n````\n`````"]
    tuned = report()
    assert f"```yaml\n{winner_yaml(tuned)}```" in markdown(tuned)
