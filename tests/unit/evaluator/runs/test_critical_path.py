"""The pieces of a latency add up to it."""

import pytest

from evaluator.runs.breakdown import answer_path, mean_path
from tests.support.load_points import two_input_pipeline
from tests.support.load_samples import load_sample

STAGES = two_input_pipeline("hybrid").identified
TIMINGS = {"bm25": 4.0, "dense": 9.0, "dense.encode": 5.0, "dense.ann": 3.0, "fuse": 1.0, "rerank": 20.0,
           "rerank.wait": 2.0, "total": 31.0, "gateway.wait": 0.5}  # fmt: skip


def test_of_two_inputs_only_the_slowest_delays_the_answer() -> None:
    path = answer_path(33.0, TIMINGS, STAGES)
    assert path == {
        "gateway.wait": 0.5, "dense.encode": 5.0, "dense.ann": 3.0, "dense": 1.0, "fuse": 1.0, "rerank.wait": 2.0,
        "rerank": 18.0, "other": 1.0, "gap": 1.5,
    }  # fmt: skip
    assert sum(path.values()) == 33.0


def test_parts_of_calls_that_ran_at_once_fit_into_their_stage() -> None:
    path = answer_path(33.0, TIMINGS | {"dense.encode": 12.0, "dense.ann": 6.0}, STAGES)
    assert (path["dense.encode"], path["dense.ann"], path["dense"]) == (6.0, 3.0, 0.0)


def test_the_mean_counts_both_inputs_each_where_it_was_the_slowest() -> None:
    slow_text = TIMINGS | {"bm25": 9.0, "dense": 4.0, "dense.encode": 2.0, "dense.ann": 1.0}
    answers = [load_sample(0, latency_ms=33.0, timings_ms=told) for told in (TIMINGS, slow_text)]
    path = mean_path(answers, STAGES)
    assert list(path) == [
        "gateway.wait", "bm25", "dense.encode", "dense.ann", "dense", "fuse", "rerank.wait", "rerank", "other", "gap",
    ]  # fmt: skip
    assert (path["bm25"], path["dense.encode"]) == (4.5, 2.5)
    assert sum(path.values()) == pytest.approx(33.0)


def test_answers_that_report_no_total_have_no_path() -> None:
    assert mean_path([load_sample(timings_ms={"bm25": 3.0})], STAGES) == {}
