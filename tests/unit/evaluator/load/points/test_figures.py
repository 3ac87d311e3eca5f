"""Figures of requests: percentiles with intervals, histograms, counts, and the quality of the timed answers."""

import random
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytrec_eval

from evaluator.load.points.figures import (
    answer_quality,
    candidates_scored,
    histogram_of,
    load_percentiles,
    mean_ndcg,
    percentiles_ms,
    read_hlog,
    request_counts,
    share_scored,
    write_hlog,
)
from evaluator.runs.latency import percentile, percentile_interval
from services.contracts.query import Degradation
from tests.support.load_samples import load_sample

BEGAN = datetime(2026, 11, 23, tzinfo=UTC)
DOCUMENTS = [f"d{number:02}" for number in range(30)]
FLAGGED = Degradation(stage="rerank", reason="deadline", detail="", done=20, of=100)


def times(count: int) -> list[float]:
    dice = random.Random(1)
    return [dice.lognormvariate(2, 1) for _ in range(count)]


def test_a_percentile_has_three_digits_of_the_nearest_rank() -> None:
    values = times(8_000)
    histogram, ordered = histogram_of(values), sorted(values)
    for percent, share in ((50.0, 0.5), (90.0, 0.9), (95.0, 0.95), (99.0, 0.99), (99.9, 0.999)):
        assert percentiles_ms(histogram, [percent])[0] == pytest.approx(percentile(ordered, share), rel=1e-3)


def test_a_log_read_back_and_merged_has_the_percentiles_of_all_values(tmp_path: Path) -> None:
    values = times(500)
    path = tmp_path / "bm25-20.hlog"
    write_hlog(path, BEGAN, [(number / 50, value) for number, value in enumerate(values)])
    lines = path.read_text().splitlines()
    assert lines[2] == "#[StartTime: 1795392000.000000 (seconds since epoch), 2026-11-23T00:00:00+00:00]"
    assert len(lines) == 4 + 10
    merged = read_hlog(path)
    assert merged.get_total_count() == 500
    assert percentiles_ms(merged, [95, 50]) == percentiles_ms(histogram_of(values), [95, 50])


@pytest.mark.parametrize(
    ("count", "p99", "p99_9"), [(661, False, False), (662, True, False), (6_999, True, False), (7_000, True, True)]
)
def test_a_tail_is_told_only_from_enough_samples(count: int, p99: bool, p99_9: bool) -> None:
    percentiles = load_percentiles(times(count))
    assert (percentiles.p99.unchecked_ms is not None, percentiles.p99_9.unchecked_ms is not None) == (p99, p99_9)
    assert percentiles.n == count
    assert percentiles.without_tail().p99.unchecked_ms is None
    assert percentiles.without_tail().p50 == percentiles.p50


def test_at_most_one_request_in_a_hundred_exceeds_p99() -> None:
    values = [float(number) for number in range(1, 663)]
    assert load_percentiles(values).p99.unchecked_ms == 656.0
    assert sum(value > 656 for value in values) / 662 <= 0.01


def test_the_interval_of_a_percentile_holds_it_in_95_of_100_draws() -> None:
    dice = random.Random(7)
    inside = 0
    for _ in range(400):
        interval = percentile_interval(sorted(dice.random() for _ in range(200)), 0.9)
        assert interval is not None
        inside += interval[0] <= 0.9 <= interval[1]
    assert 0.93 <= inside / 400 <= 0.99


def test_ndcg_over_requests_equals_trec_evals_with_late_lost_and_dropped_as_empty() -> None:
    dice = random.Random(3)
    judgments = {f"q{at}": {name: dice.choice([0, 1, 1, 2]) for name in dice.sample(DOCUMENTS, 12)} for at in range(8)}
    samples = []
    for number in range(400):
        fate = dice.choice(["answered"] * 6 + ["late", "timeout", "dropped"])
        given = {"late": True} if fate == "late" else {"error": fate} if fate != "answered" else {}
        # Few different rankings a query, as of an engine that sometimes degrades.
        ids = DOCUMENTS[dice.randrange(3) :: 3]
        samples.append(
            load_sample(number, dice.choice(sorted(judgments)), ids=() if "error" in given else ids, **given)
        )
    requests = {f"{sample.number}": sample for sample in samples}
    run = {
        name: {document: float(10 - at) for at, document in enumerate(sample.ids[:10])}
        if sample.outcome == "answered"
        else {}
        for name, sample in requests.items()
    }
    qrels = {name: judgments[sample.query] for name, sample in requests.items()}
    measured = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10"}).evaluate(run)
    theirs = sum(measured.get(name, {}).get("ndcg_cut_10", 0.0) for name in requests) / len(requests)
    ours = mean_ndcg(judgments, samples)
    assert ours == pytest.approx(theirs, abs=1e-9)
    assert 0 < theirs < 1


def test_degraded_answers_count_as_they_are_with_their_share_and_the_candidates_done() -> None:
    samples = [
        load_sample(0, ids=("d1",)),
        load_sample(1, ids=("d1",), degraded=(FLAGGED,)),
        load_sample(2, latency_ms=None),
        load_sample(3, ids=("d1",), late=True, latency_ms=10_100.0),
    ]
    quality = answer_quality({"q": {"d1": 1}}, samples, {"rerank": 100}, 10)
    assert quality.ndcg_at_10 == pytest.approx(0.5)
    assert quality.degraded_share == 0.5
    assert quality.reranked_share == pytest.approx(0.6)


def test_no_more_candidates_count_as_reranked_than_were_found() -> None:
    samples = [load_sample(0, ids=("d1", "d2")), load_sample(1), load_sample(2, ids=("d1", "d2"), degraded=(FLAGGED,))]
    quality = answer_quality({"q": {"d1": 1}}, samples, {"rerank": 100}, 10)
    assert quality.reranked == pytest.approx((2 + 0 + 20) / 3)


def test_answers_that_hide_their_candidates_leave_the_number_open() -> None:
    samples = [load_sample(0, ids=DOCUMENTS[:10]), load_sample(1, ids=DOCUMENTS[:10], degraded=(FLAGGED,))]
    quality = answer_quality({"q": {"d1": 1}}, samples, {"rerank": 100}, 10)
    assert (quality.reranked, quality.reranked_share) == (None, pytest.approx(0.6))


def test_every_request_is_counted_once() -> None:
    samples = [
        load_sample(0, ids=("d1",)),
        load_sample(1, latency_ms=None),
        load_sample(2, latency_ms=None, error="dropped", send_lag_ms=None),
        load_sample(3, ids=("d1",), late=True, latency_ms=10_100.0),
        load_sample(4, latency_ms=None, error="overloaded"),
    ]
    counts = request_counts(samples)
    assert (counts.answered, counts.late, counts.failed, counts.dropped) == (1, 1, 2, 1)
    assert counts.errors_by_kind == {"timeout": 1, "overloaded": 1}
    assert counts.requests == 5


@pytest.mark.parametrize(
    ("hits", "depth", "done", "number", "share"),
    [
        (1_000, 1_000, None, 100, 1.0),
        (0, 1_000, None, 0, 1.0),  # nothing to re-rank is no degradation
        (40, 1_000, None, 40, 1.0),  # all hits are shown, so that there were no more candidates
        (10, 10, None, None, 1.0),  # up to 100 candidates for the 10 hits that were asked for
        (10, 10, 37, 37, 0.37),
        (1_000, 1_000, 0, 0, 0.0),
    ],
)
def test_candidates_are_counted_where_the_answer_tells_them(
    hits: int, depth: int, done: int | None, number: int | None, share: float
) -> None:
    degraded = () if done is None else (FLAGGED.model_copy(update={"done": done}),)
    assert candidates_scored(degraded, hits, {"rerank": 100}, depth) == number
    assert share_scored(degraded, {"rerank": 100}) == pytest.approx(share)
