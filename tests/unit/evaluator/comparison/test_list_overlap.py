"""Overlap and rank-biased overlap agree with hand-worked cases, the definition, and their bounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.comparison.list_overlap import overlap, rank_biased_overlap

RANKINGS = st.lists(st.sampled_from("abcdefghij"), unique=True, max_size=10)


def by_definition(first: list[str], second: list[str], p: float, depth: int) -> float:
    """Sums the series of two lists that go on with the agreement of their last common depth."""
    agreement = [len(set(first[:d]) & set(second[:d])) / d for d in range(1, len(first) + 1)]
    agreement += [agreement[-1]] * (depth - len(agreement))
    return (1 - p) * sum(p ** (d - 1) * share for d, share in enumerate(agreement, start=1))


def test_equal_lists_agree_fully() -> None:
    assert rank_biased_overlap("abc", "abc") == pytest.approx(1.0)
    assert overlap("abc", "abc") == 1.0


def test_lists_without_a_common_document_agree_in_nothing() -> None:
    assert rank_biased_overlap("abc", "def") == 0.0
    assert overlap("abc", "def") == 0.0


def test_lists_of_one_length_have_the_sum_of_the_series() -> None:
    first, second = list("abcdef"), list("bacxfy")
    assert rank_biased_overlap(first, second) == pytest.approx(by_definition(first, second, 0.9, 500), abs=1e-9)


def test_a_shorter_list_that_begins_the_longer_one_agrees_fully() -> None:
    assert rank_biased_overlap("ab", "abcd") == pytest.approx(1.0)


def test_an_empty_list_shares_nothing_and_two_are_equal() -> None:
    assert rank_biased_overlap("", "a") == overlap("", "a") == 0.0
    assert rank_biased_overlap("", "") == overlap("", "") == 1.0


def test_overlap_looks_at_the_first_ten_and_ignores_their_order() -> None:
    assert overlap("abcdefghijXY", "jihgfedcbaZW") == 1.0
    assert overlap("abcdefghij", "abcdeVWXYZ") == 0.5
    assert overlap("ab", "abcd") == 0.5


@given(RANKINGS, RANKINGS)
def test_both_are_symmetric_and_between_0_and_1(first: list[str], second: list[str]) -> None:
    for measure in (overlap, rank_biased_overlap):
        assert -1e-12 <= measure(first, second) <= 1 + 1e-12
        assert measure(first, second) == pytest.approx(measure(second, first))


@given(RANKINGS)
def test_a_swap_at_the_top_costs_more_than_one_at_the_end(ranking: list[str]) -> None:
    if len(ranking) >= 4:
        top = [ranking[1], ranking[0], *ranking[2:]]
        end = [*ranking[:-2], ranking[-1], ranking[-2]]
        assert rank_biased_overlap(ranking, top) < rank_biased_overlap(ranking, end) < 1
