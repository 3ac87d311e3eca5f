"""Quality of the timed answers, over requests."""

import random

import pytest
import pytrec_eval

from evaluator.load.points.figures import answer_quality, mean_ndcg, request_counts
from services.contracts.query import Degradation
from tests.support.load_samples import load_sample

DOCUMENTS = [f"d{number:02}" for number in range(30)]


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
    requests = {f"{one.number}": one for one in samples}
    run = {
        name: {document: float(10 - at) for at, document in enumerate(one.ids[:10])}
        if one.outcome == "answered"
        else {}
        for name, one in requests.items()
    }
    qrels = {name: judgments[one.query] for name, one in requests.items()}
    found = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10"}).evaluate(run)
    theirs = sum(found.get(name, {}).get("ndcg_cut_10", 0.0) for name in requests) / len(requests)
    ours = mean_ndcg(judgments, samples)
    assert ours == pytest.approx(theirs, abs=1e-9)
    assert 0 < theirs < 1


FLAGGED = Degradation(stage="rerank", reason="deadline", detail="", done=20, of=100)


def test_degraded_answers_count_as_they_are_with_their_share_and_the_candidates_done() -> None:
    samples = [
        load_sample(0, ids=("d1",)),
        load_sample(1, ids=("d1",), degraded=(FLAGGED,)),
        load_sample(2, latency_ms=None),
        load_sample(3, ids=("d1",), late=True, latency_ms=10_100.0),
    ]
    found = answer_quality({"q": {"d1": 1}}, samples, {"rerank": 100}, 10)
    assert found.ndcg_at_10 == pytest.approx(0.5)
    assert found.degraded_share == 0.5
    assert found.reranked_share == pytest.approx(0.6)


def test_no_more_candidates_count_as_reranked_than_were_found() -> None:
    samples = [
        load_sample(0, ids=("d1", "d2")),
        load_sample(1),
        load_sample(2, ids=("d1", "d2"), degraded=(FLAGGED,)),
    ]
    found = answer_quality({"q": {"d1": 1}}, samples, {"rerank": 100}, 10)
    assert found.reranked == pytest.approx((2 + 0 + 20) / 3)


def test_answers_that_hide_their_candidates_leave_the_number_open() -> None:
    samples = [load_sample(0, ids=DOCUMENTS[:10]), load_sample(1, ids=DOCUMENTS[:10], degraded=(FLAGGED,))]
    found = answer_quality({"q": {"d1": 1}}, samples, {"rerank": 100}, 10)
    assert (found.reranked, found.reranked_share) == (None, pytest.approx(0.6))


def test_every_request_is_counted_once() -> None:
    samples = [
        load_sample(0, ids=("d1",)),
        load_sample(1, latency_ms=None),
        load_sample(2, latency_ms=None, error="dropped", send_lag_ms=None),
        load_sample(3, ids=("d1",), late=True, latency_ms=10_100.0),
        load_sample(4, latency_ms=None, error="overloaded"),
    ]
    found = request_counts(samples)
    assert (found.answered, found.late, found.failed, found.dropped) == (1, 1, 2, 1)
    assert found.errors_by_kind == {"timeout": 1, "overloaded": 1}
    assert found.requests == 5
