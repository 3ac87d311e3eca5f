"""`X-Cached-Results`, read and summed up."""

from pathlib import Path

import pytest

from evaluator.client.cached_results import (
    CacheUse,
    cache_faults,
    cache_remarks,
    read_cached_results,
    sum_cached_results,
)
from evaluator.experiments.experiment import read_experiment


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("", {}),
        ("dense=1/1", {"dense": (1, 1)}),
        ("dense=0/1, reranker-2=12/100", {"dense": (0, 1), "reranker-2": (12, 100)}),
        ("1/1", {}),
        ("dense=1/1, x=, =1/1, y=1/1/1, z=-1/2", {"dense": (1, 1)}),
    ],
)
def test_the_header_is_read_by_backend(header: str, found: dict[str, tuple[int, int]]) -> None:
    assert read_cached_results(header) == found


def test_hit_rates_are_over_results_not_over_answers() -> None:
    answers = [{"dense": (0, 1), "reranker": (90, 90)}, {}, {"dense": (1, 1), "reranker": (0, 10)}, {"empty": (0, 0)}]
    assert sum_cached_results(answers) == {
        "dense": CacheUse(hits=1, of=2, rate=0.5),
        "reranker": CacheUse(hits=90, of=100, rate=0.9),
    }


@pytest.mark.parametrize(("line", "caches"), [("caches: on", True), ("caches: off", False), ("", False)])
def test_caches_are_off_unless_the_experiment_says_on(tmp_path: Path, line: str, caches: bool) -> None:
    (tmp_path / "e.yaml").write_text(f"name: e\ndataset: d\npipelines: [bm25]\n{line}\n")
    assert read_experiment(tmp_path / "e.yaml").caches is caches


def test_times_of_a_cache_that_nobody_asked_for_do_not_hold() -> None:
    used = {"bm25": {}, "dense": {"dense": CacheUse(hits=0, of=1, rate=0.0)}}
    assert list(cache_faults(True, used)) == []
    assert list(cache_faults(False, {"bm25": {}})) == []
    assert list(cache_faults(False, used)) == [
        "dense: dense used a cache, although every request said `Cache-Control: no-store`"
    ]


def test_a_run_with_caches_of_which_there_are_none_says_so() -> None:
    assert list(cache_remarks(False, {"bm25": {}})) == []
    assert "no backend has one" in next(cache_remarks(True, {"bm25": {}}))
