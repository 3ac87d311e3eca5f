"""Cutting a document's tokens into passages loses none, and keeps to what was asked for."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from services.contracts.passages import Passages
from services.inference.passages import count_title_tokens, cut_tokens, passage_text

PASSAGES = st.integers(16, 300).flatmap(
    lambda tokens: st.builds(Passages, tokens=st.just(tokens), overlap=st.integers(0, tokens // 2))
)


@given(st.integers(0, 3_000), st.integers(0, 400), PASSAGES)
def test_every_token_is_in_a_passage_and_none_is_longer_than_asked_for(
    count: int, title: int, passages: Passages
) -> None:
    cut = cut_tokens(count, min(title, count), passages.tokens, passages.overlap)
    assert {*range(cut.front), *itertools.chain(*cut.ranges)} == set(range(count))
    assert max(cut.front + len(one) for one in cut.ranges) <= passages.tokens
    assert cut.front <= title
    for one, following in itertools.pairwise(cut.ranges):
        assert len(range(following.start, one.stop)) == min(passages.overlap, (passages.tokens - cut.front) // 2)
        assert one.stop < following.stop
    # The work is bounded by the text: 4 times, a title as long as half a passage included.
    assert sum(cut.front + len(one) for one in cut.ranges) <= 4 * count


def test_a_document_that_fits_is_one_passage_without_a_front() -> None:
    assert cut_tokens(128, 10, 128, 64).ranges == (range(128),)
    assert cut_tokens(128, 10, 128, 64).front == 0
    assert cut_tokens(0, 0, 16, 0).ranges == (range(0),)


def test_the_title_stands_in_front_of_each_passage() -> None:
    cut = cut_tokens(300, 10, 110, 20)
    assert (cut.front, cut.ranges) == (10, (range(10, 110), range(90, 190), range(170, 270), range(250, 300)))
    assert cut_tokens(300, 10, 110, 20, most=2).ranges == cut.ranges[:2]


def test_a_passage_is_a_substring_of_the_text() -> None:
    text, offsets = "Wheels: true them", [(0, 6), (6, 7), (8, 12), (13, 17)]
    assert count_title_tokens(offsets, 7) == 2
    assert count_title_tokens(offsets, 0) == 0
    assert count_title_tokens(offsets, 99) == 4
    assert passage_text(text, offsets, range(2, 4)) == "true them"
    assert passage_text(text, offsets, range(2, 2)) == ""
