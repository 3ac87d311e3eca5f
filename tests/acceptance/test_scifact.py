"""The runs on SciFact that `.ci/run` has just made, against their bars (docs/parity.md)."""

import json
from pathlib import Path

import pytest

from evaluator.report.run_report import Report

RUNS = Path(__file__).resolve().parents[2] / ".runs"


def report(name: str) -> Report:
    file = RUNS / name
    if not file.exists():
        pytest.skip(f"{file.name} is not here: .ci/run makes it where ../shared/datasets/scifact is")
    return Report.model_validate(json.loads(file.read_text(encoding="utf-8")))


@pytest.fixture
def first_stage() -> Report:
    return report("ci-first-stage.json")


@pytest.fixture
def reranked() -> Report:
    return report("ci-rerank.json")


@pytest.mark.acceptance
def test_bm25_equals_the_published_figure_to_the_fourth_decimal(first_stage: Report) -> None:
    assert round(first_stage.pipelines["bm25"].quality["nDCG@10"] or 0.0, 4) == 0.6906


@pytest.mark.acceptance
def test_dense_equals_the_published_figure_within_its_band(first_stage: Report) -> None:
    assert first_stage.pipelines["dense"].quality["nDCG@10"] == pytest.approx(0.645, abs=0.003)


@pytest.mark.acceptance
def test_hybrid_rrf_of_200_candidates_a_leg_is_above_both(first_stage: Report) -> None:
    assert first_stage.pipelines["hybrid-rrf"].quality["nDCG@10"] == pytest.approx(0.715, abs=0.003)


@pytest.mark.acceptance
def test_the_first_ten_hits_are_the_same_for_10_and_for_1000(first_stage: Report) -> None:
    for pipeline in first_stage.pipelines.values():
        assert (first_stage.timed_top, first_stage.depth, pipeline.deep, pipeline.deep_differs) == (10, 1000, 300, 0)


@pytest.mark.acceptance
def test_no_query_was_lost_and_nothing_was_degraded(first_stage: Report, reranked: Report) -> None:
    for run, queries in ((first_stage, 300), (reranked, 50)):
        for pipeline in run.pipelines.values():
            assert (pipeline.queries, pipeline.judged, pipeline.errors, pipeline.degraded) == (queries, queries, 0, 0)


@pytest.mark.acceptance
def test_reranking_lifts_bm25_and_costs_hybrid_nothing(reranked: Report) -> None:
    ndcg = {name: pipeline.quality["nDCG@10"] or 0.0 for name, pipeline in reranked.pipelines.items()}
    assert ndcg["bm25-rerank"] >= ndcg["bm25"] + 0.02
    # 50 queries: the means of two good orders differ by a hundredth either way.
    assert ndcg["hybrid-rerank"] >= ndcg["hybrid"] - 0.01
