"""The pace of a load: smaller batches where calls are slow, fewer in flight where they are refused."""

from evaluator.client.client import GatewayError
from evaluator.steps.corpus_batches import (
    FIRST_BATCH_DOCUMENTS,
    MOST_BATCH_DOCUMENTS,
    MOST_IN_FLIGHT,
    SLOW_S,
    LoadPace,
)

CALL_S = 120.0


def loaded(pace: LoadPace, document_s: float, rounds: int = 30) -> float:
    """Loads in rounds with an encoder that takes `document_s` a document; returns the longest call's seconds."""
    longest = 0.0
    for _ in range(rounds):
        sizes = [pace.documents] * pace.in_flight
        seconds = sum(sizes) * document_s
        longest = max(longest, seconds)
        for size in sizes:
            pace.taken(size, seconds)
    return longest


def test_with_a_quick_encoder_batches_and_their_number_grow_to_their_most() -> None:
    pace = LoadPace()
    assert (pace.documents, pace.in_flight) == (FIRST_BATCH_DOCUMENTS, 1)
    loaded(pace, 0.0005)
    assert (pace.documents, pace.in_flight) == (MOST_BATCH_DOCUMENTS, MOST_IN_FLIGHT)


def test_with_an_encoder_of_a_second_a_document_no_call_comes_near_its_time_limit() -> None:
    pace = LoadPace()
    assert loaded(pace, 1.0) < CALL_S / 1.5
    assert pace.documents * MOST_IN_FLIGHT <= SLOW_S


def test_a_slow_failure_bounds_the_next_call_and_a_refusal_the_calls_in_flight() -> None:
    pace = LoadPace()
    loaded(pace, 0.0005)
    for _ in range(MOST_IN_FLIGHT):  # in flight together, so slow together
        pace.failed(256, GatewayError("incomplete", "dense: timeout", status=503), CALL_S)
    assert (pace.documents, pace.in_flight) == (21, MOST_IN_FLIGHT)
    for _ in range(5):
        pace.failed(21, GatewayError("overloaded", "full", status=429), 0.01)
    assert (pace.documents, pace.in_flight) == (21, 1)
