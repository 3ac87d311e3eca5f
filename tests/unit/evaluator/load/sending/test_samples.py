"""What a reply to a request becomes: answered, late, refused, failed or dropped."""

import pytest

from evaluator.load.points.figures import request_counts
from evaluator.load.sending.load_loop import Reply, SendRecord
from evaluator.load.sending.samples import LoadSample, read_sample
from evaluator.load.sending.traffic import LoadTarget, PlannedRequest
from services.contracts.query import PipelineRef, SearchAnswer

TARGET = LoadTarget("http://h/search", 10, 500, ("q",), {}, frozenset(), {}, caches=False)
PIPELINE = PipelineRef(name="bm25", fingerprint="0")
ANSWER = SearchAnswer(collection="shop@1", pipeline=PIPELINE, request_id="r", hits=(), degraded=(), timings_ms={})
BODY = ANSWER.model_dump_json().encode()
REFUSAL = b'{"type": "urn:problem:overloaded", "title": "Busy", "status": 429, "detail": "busy", "request_id": "r"}'


def read(reply: Reply | None, done_s: float = 1.3, sent_s: float | None = 1.1) -> LoadSample:
    """Reads the reply to a request that was planned after a second."""
    record = SendRecord(0, 1.0, sent_s, done_s, reply)
    return read_sample(TARGET, PlannedRequest(1.0, "bm25", "q"), record, 0, "measured", None, "load-0")


@pytest.mark.parametrize(
    ("sample", "outcome", "counted_ms"),
    [
        (read(Reply(200, BODY)), "answered", 300),
        (read(Reply(200, BODY), done_s=1.7), "late", 700),
        (read(Reply(0, b"", "timeout"), done_s=3.0), "failed", 2_000),
        (read(Reply(429, REFUSAL)), "failed", 500),
        (read(None, sent_s=None), "dropped", 500),
    ],
)
def test_every_request_has_one_outcome_and_counts_with_at_least_its_deadline_without_an_answer(
    sample: LoadSample, outcome: str, counted_ms: float
) -> None:
    assert sample.outcome == outcome
    assert sample.counted_ms == pytest.approx(counted_ms)
    assert getattr(request_counts([sample]), outcome) == 1


def test_times_count_from_the_planned_time_and_a_refusal_from_sending() -> None:
    answered, refused = read(Reply(200, BODY)), read(Reply(429, REFUSAL))
    assert (answered.latency_ms, answered.service_ms, answered.send_lag_ms) == pytest.approx((300, 200, 100))
    assert (refused.latency_ms, refused.error, refused.refused_ms) == (None, "overloaded", pytest.approx(200))
    assert (answered.request_id, refused.request_id) == ("r", "load-0")
