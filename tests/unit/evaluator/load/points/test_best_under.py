"""Which pipeline is best under a bound of p99."""

from itertools import combinations

import pytest

from evaluator.load.points.best_under import (
    BestUnder,
    PipelineUnderBound,
    best_under,
    best_under_rows,
    quality_differences,
    told_apart,
    under_bound,
)
from evaluator.load.points.figures import LoadPercentiles
from tests.support.load_samples import load_sample

BOUND = 250.0


def judged(
    pipeline: str, ndcg: float, p99_ms: float | None, spread: float = 0.1, n: int = 1_200, degraded: float = 0.0
) -> PipelineUnderBound:
    interval = None if p99_ms is None else (p99_ms * (1 - spread), p99_ms * (1 + spread))
    latency = LoadPercentiles(
        p50=10, p90=20, p95=30, p99=p99_ms, p99_9=None, max=2_000, n=n, intervals={"p99": interval}
    )
    return under_bound(pipeline, ndcg, latency, degraded, BOUND)


def found(*pipelines: PipelineUnderBound) -> BestUnder:
    """Judges pipelines whose nDCG@10 is told apart."""
    names = [judged.pipeline for judged in pipelines]
    return best_under(pipelines, 10, BOUND, [frozenset(pair) for pair in combinations(names, 2)])


def test_the_pipeline_with_the_highest_quality_among_those_in_time_is_the_best() -> None:
    best = found(judged("bm25", 0.5, 20), judged("hybrid", 0.7, 90), judged("hybrid-rerank", 0.8, 900))
    assert (best.outcome, best.best) == ("best", "hybrid")
    assert best.sentence == "hybrid has the highest nDCG@10 with p99 <= 250 ms at 10/s: 0.7000, p99 90.0 ms."
    assert [pipeline.outcome for pipeline in best.pipelines] == ["exceeded", "kept", "kept"]


def test_none_is_an_answer() -> None:
    assert found(judged("bm25", 0.5, 400)).sentence == "No pipeline keeps p99 <= 250 ms at 10/s."


@pytest.mark.parametrize(
    ("p99_ms", "n", "reason"),
    [
        (None, 564, "564 of the 662 requests that a p99 needs"),
        (None, 1_200, "its times are not valid"),
        (249.0, 1_200, "the interval of its p99 contains the bound"),
    ],
)
def test_a_better_pipeline_of_which_p99_is_not_known_well_leaves_the_best_open(
    p99_ms: float | None, n: int, reason: str
) -> None:
    best = found(judged("bm25", 0.5, 20), judged("hybrid", 0.7, p99_ms, n=n))
    assert (best.outcome, best.best) == ("cannot tell", None)
    assert best.sentence == (
        f"This run cannot tell the best pipeline with p99 <= 250 ms at 10/s: hybrid ({reason}) might keep it."
    )


@pytest.mark.parametrize(("degraded", "said"), [(0.01, ""), (0.996, " Of its answers 99.6% were degraded.")])
def test_a_pipeline_that_keeps_its_quality_degraded_is_the_best_and_the_sentence_tells_the_share(
    degraded: float, said: str
) -> None:
    best = found(judged("bm25", 0.5, 20), judged("hybrid-rerank", 0.7, 90, degraded=degraded))
    assert best.best == "hybrid-rerank"
    assert best.sentence.endswith(f"0.7000, p99 90.0 ms.{said}")
    assert f"{degraded:.1%}" in [row[4] for row in best_under_rows(best)]


def test_a_worse_pipeline_of_which_p99_is_not_known_is_not_named_among_those_that_leave_the_best_open() -> None:
    best = found(judged("bm25", 0.5, None), judged("dense", 0.6, 90), judged("hybrid", 0.7, None))
    assert best.sentence.endswith(" at 10/s: hybrid (its times are not valid) might keep it.")


def test_pipelines_in_time_that_may_be_as_good_are_named_beside_the_best() -> None:
    several = [
        judged("bm25", 0.5, 20),
        judged("dense", 0.6999, 90),
        judged("hybrid", 0.7, 90),
        judged("slow", 0.69, 900),
    ]
    best = best_under(several, 10, BOUND, [frozenset({"hybrid", "bm25"})])
    assert (best.best, best.not_told_apart) == ("hybrid", ("dense",))
    assert best.sentence.startswith("hybrid, not told apart from dense, has the highest nDCG@10 with p99 <= 250 ms")


def test_a_difference_is_told_where_its_interval_over_queries_excludes_0() -> None:
    queries = [f"q{number}" for number in range(40)]
    judgments = {query: {"good": 1} for query in queries}
    rankings = {"a": ("good",), "b": ("bad", "good")}
    samples = {
        name: [load_sample(number, query, ids=ids) for number, query in enumerate(queries * 2)]
        for name, ids in rankings.items()
    }
    # Each is lost on other queries.
    samples["c"] = [
        sample.model_copy(update={"error": "timeout"}) if number % 10 == 0 else sample
        for number, sample in enumerate(samples["a"])
    ]
    samples["a"] = [
        sample.model_copy(update={"error": "timeout"}) if number % 10 == 5 else sample
        for number, sample in enumerate(samples["a"])
    ]
    differing = list(quality_differences("20", samples, judgments, 1))
    assert [(pair.first, pair.second, pair.queries) for pair in differing] == [
        ("a", "b", 40),
        ("a", "c", 40),
        ("b", "c", 40),
    ]
    assert differing[1].difference == 0
    assert told_apart(differing, "20") == {frozenset("ab"), frozenset("bc")}
    assert told_apart(differing, "10") == frozenset()


def test_the_table_begins_with_the_best_quality_and_marks_what_is_not_known() -> None:
    _, best, other = best_under_rows(found(judged("bm25", 0.5, None), judged("hybrid", 0.7, 90)))
    assert best[0] == "hybrid"
    assert other == ["bm25", "0.5000", "–", "–", "0.0%", "cannot tell"]
