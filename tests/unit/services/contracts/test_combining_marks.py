"""Runs of combining marks are bounded before text is normalised."""

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from services.contracts.base import MOST_MARKS, QueryText, has_overlong_run, stream_safe

# Two classes in turn, so that canonical ordering has to move every second one; and a vowel that is two marks.
HOSTILE = {"two classes": "a" + "\u0301\u0316" * 8_000, "a vowel of two marks": "a" + "\u0f81" * 16_000}
queries = TypeAdapter(QueryText)
texts = st.text(st.sampled_from("ab \u0301\u0316\u0f81\u4e2d"), max_size=200)


def longest_run(text: str) -> int:
    longest = run = 0
    for letter in text:
        run = run + 1 if unicodedata.combining(unicodedata.normalize("NFD", letter)[0]) else 0
        longest = max(longest, run)
    return longest


@pytest.mark.parametrize("name", HOSTILE)
def test_a_query_of_combining_marks_is_refused_quickly(name: str) -> None:
    started = time.process_time()
    with pytest.raises(ValidationError, match="combining marks"):
        queries.validate_python(HOSTILE[name])
    assert time.process_time() - started < 0.05  # it was 0.2 and 0.8 s


def test_scripts_that_stack_marks_are_accepted() -> None:
    for query in ("Zalgo\u0301\u0316\u0335", "\u0e01\u0e49\u0e33" * 1_000, "e" + "\u0301" * MOST_MARKS):
        assert queries.validate_python(query) == unicodedata.normalize("NFC", query)


def test_a_document_of_combining_marks_is_normalised_quickly() -> None:
    started = time.process_time()
    unicodedata.normalize("NFC", stream_safe("a" + "\u0301\u0316" * 80_000))
    assert time.process_time() - started < 0.5  # 20 s without the joiners


@given(texts)
def test_exactly_the_overlong_runs_are_found(text: str) -> None:
    assert has_overlong_run(text) == (longest_run(text) > MOST_MARKS)


@given(texts.map(lambda text: text * 3))
def test_breaking_runs_keeps_every_character_and_leaves_no_overlong_run(text: str) -> None:
    safe = stream_safe(text)
    assert not has_overlong_run(safe)
    assert safe.replace("\u034f", "") == text
    assert safe == text or has_overlong_run(text)
