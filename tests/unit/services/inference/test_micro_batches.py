"""Checks that micro-batches hold each row once, respect the cap on padded tokens, and return results in order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.inference.micro_batches import cap_for_all_threads, form_batches, in_request_order

LENGTHS = st.lists(st.integers(1, 600), max_size=200)
CAPS = st.integers(1, 2048)


@given(LENGTHS, CAPS, st.booleans())
def test_every_row_is_in_exactly_one_batch(lengths, cap, batchable):
    batches = form_batches(lengths, cap, batchable=batchable)
    assert sorted(place for batch in batches for place in batch) == list(range(len(lengths)))
    assert all(batches)


@given(LENGTHS, CAPS)
def test_padded_tokens_stay_within_the_cap_except_for_a_single_row(lengths, cap):
    for batch in form_batches(lengths, cap):
        assert len(batch) == 1 or len(batch) * max(lengths[place] for place in batch) <= cap


@given(LENGTHS, CAPS)
def test_a_batch_ends_only_where_the_next_row_would_exceed_the_cap(lengths, cap):
    batches = form_batches(lengths, cap)
    for batch in batches[:-1]:
        assert (len(batch) + 1) * max(lengths[place] for place in batch) > cap


@given(LENGTHS)
def test_a_model_that_is_not_batchable_gets_one_row_a_batch(lengths):
    assert all(len(batch) == 1 for batch in form_batches(lengths, batchable=False))


@given(LENGTHS, CAPS)
def test_results_come_back_in_the_order_of_the_request(lengths, cap):
    batches = form_batches(lengths, cap)
    results = [[(place, lengths[place]) for place in batch] for batch in batches]
    assert in_request_order(batches, results) == list(enumerate(lengths))


def test_the_longest_rows_come_first_and_equal_ones_in_their_order():
    assert form_batches([5, 9, 5, 1], 10) == [(1,), (0, 2), (3,)]


def test_a_missing_result_is_an_error_and_not_a_shifted_ranking():
    with pytest.raises(ValueError, match="zip"):
        in_request_order([(0, 1)], [[1.0]])


def test_a_small_request_gives_each_thread_a_batch():
    lengths = [70] * 10
    batches = form_batches(lengths, cap_for_all_threads(lengths, 2, 512))
    assert [len(batch) for batch in batches] == [5, 5]
