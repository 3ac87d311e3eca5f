"""Every figure of a report says what it is a mean of, and what the order of tied documents could make of it."""

import json
import math
from pathlib import Path

import pytest

from evaluator.experiments.experiment import Experiment
from evaluator.report.evaluation import evaluate
from evaluator.report.run_report import Report
from evaluator.runs.run_folder import RunFolder
from evaluator.steps.quality_figures import QueryFigures
from services.chassis.errors import Unavailable
from tests.support.gateway_stub import GatewayStub, write_shop
from tests.support.small_runs import reached

METRICS = ("nDCG@10", "MAP", "Recall@100", "judged@10", "hole@10", "bpref", "P@1")


async def evaluated(stub: GatewayStub, tmp_path: Path, **given: object) -> tuple[Report, RunFolder]:
    """Runs all steps over the shop with two more queries: `bell` finds two tied documents, `nothing` finds none."""
    shop = write_shop(tmp_path / "shop")
    with (shop / "queries.jsonl").open("a") as queries:
        queries.write('{"_id": "tie", "text": "bell"}\n{"_id": "none", "text": "nothing"}\n')
    with (shop / "qrels" / "test.tsv").open("a") as judgments:
        judgments.write("tie\td2\t1\nnone\td2\t1\n")
    content = {"name": "small", "dataset": str(shop), "pipelines": ["bm25"], "warmup": 1, "metrics": METRICS, **given}
    folder = RunFolder.create(tmp_path / "runs", Experiment.model_validate(content))
    async with reached(stub) as client:
        return await evaluate(client, folder), folder


async def test_a_figure_tells_its_denominator_and_which_queries_count_as_zero(
    stub: GatewayStub, tmp_path: Path
) -> None:
    stub.failing_queries = {"oil chain": Unavailable("gone")}
    report, _ = await evaluated(stub, tmp_path)
    figures = report.pipelines["bm25"].figures
    assert list(figures) == list(METRICS)
    ndcg, judged = figures["nDCG@10"], figures["judged@10"]
    assert (ndcg.judged, ndcg.queries, ndcg.lost, ndcg.no_hits, ndcg.excluded_self) == (6, 6, 1, 1, 1)
    # The lost query and the one without hits show nothing: they have no judged share.
    assert (judged.judged, judged.queries, judged.lost, judged.no_hits) == (6, 4, 1, 1)
    assert report.pipelines["bm25"].quality == {name: figure.mean for name, figure in figures.items()}


async def test_a_figure_tells_the_share_of_unjudged_documents_shown(stub: GatewayStub, tmp_path: Path) -> None:
    report, folder = await evaluated(stub, tmp_path)
    figures = report.pipelines["bm25"].figures
    shown = [line.split("\t")[:4:2] for line in folder.run_file("bm25").read_text().splitlines()]
    judged = {("q1", "d1"), ("q1", "d2"), ("q2", "d4"), ("q3", "d1"), ("q4", "d3"), ("tie", "d2"), ("none", "d2")}
    unjudged = sum(tuple(pair) not in judged for pair in shown)
    assert unjudged > 0
    assert figures["nDCG@10"].unjudged == figures["MAP"].unjudged == pytest.approx(unjudged / len(shown))
    first = [pair for pair, line in zip(shown, folder.run_file("bm25").read_text().splitlines(), strict=True)
             if line.split("\t")[3] == "1"]  # fmt: skip
    assert figures["P@1"].unjudged == pytest.approx(sum(tuple(pair) not in judged for pair in first) / len(first))


async def test_tied_documents_give_a_figure_its_bounds(stub: GatewayStub, tmp_path: Path) -> None:
    report, folder = await evaluated(stub, tmp_path)
    ties, mean = report.pipelines["bm25"].figures["nDCG@10"].ties, report.pipelines["bm25"].quality["nDCG@10"]
    assert ties is not None
    assert mean is not None
    # `bell` finds d1 and d2 with the same score, and d2 alone is relevant: 1 at rank 1, 1 / log2(3) at rank 2.
    second = 1 / math.log2(3)
    assert ties.queries == 1
    assert ties.worst == pytest.approx(mean)
    assert ties.expected - ties.worst == pytest.approx((1 - second) / 2 / 6)
    assert ties.best - ties.worst == pytest.approx((1 - second) / 6)
    page = (folder.path / "report.md").read_text()
    assert f"| {ties.worst:.4f} | {ties.expected:.4f} | {ties.best:.4f} |" in " ".join(page.split())


async def test_a_query_without_a_value_is_null_in_the_figures_by_query(stub: GatewayStub, tmp_path: Path) -> None:
    _, folder = await evaluated(stub, tmp_path)
    lines = [QueryFigures.model_validate_json(line) for line in folder.per_query("bm25").read_text().splitlines()]
    by_query = {line.query: line.figures for line in lines}
    assert (by_query["none"]["judged@10"], by_query["none"]["nDCG@10"]) == (None, 0)
    assert by_query["q1"]["judged@10"] == 1


async def test_a_metric_deeper_than_the_rankings_is_null_with_its_bounds(stub: GatewayStub, tmp_path: Path) -> None:
    report, folder = await evaluated(stub, tmp_path, depth=20)
    deep = report.pipelines["bm25"].figures["Recall@100"]
    assert (deep.mean, deep.ties, deep.depth) == (None, None, 100)
    assert report.pipelines["bm25"].quality["Recall@100"] is None
    assert report.pipelines["bm25"].figures["MAP"].label == "MAP@20"
    first = QueryFigures.model_validate_json(folder.per_query("bm25").read_text().splitlines()[0])
    assert (first.figures["Recall@100"], first.figures["MAP"]) == (None, 1)


async def test_the_report_states_its_conventions(stub: GatewayStub, tmp_path: Path) -> None:
    _, folder = await evaluated(stub, tmp_path, depth=100)
    conventions = json.loads((folder.path / "report.json").read_text())["conventions"]
    assert set(conventions) >= {"gain", "discount", "ties", "relevance_level", "denominators"}
    assert conventions["relevance_level"] == 1
    assert conventions["depth"] == 100
    assert list(conventions["metrics"]) == list(METRICS)
    assert conventions["metrics"]["MAP"]["label"] == "MAP@100"
    assert conventions["metrics"]["nDCG@10"]["trec_eval"] == "ndcg_cut.10"
    assert conventions["metrics"]["bpref"]["ranx"] is None
