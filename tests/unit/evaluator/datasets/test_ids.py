"""Ids are equal whatever surrounds them, and made ones are readable."""

import unicodedata

import pytest

from evaluator.datasets.ids import decoded_id, plain_id, slug


@pytest.mark.parametrize(
    ("written", "plain"),
    [("d1", "d1"), (" d1\u00a0", "d1"),
     ('"d1"', "d1"), ('" d1 "', "d1"), ('"""d1"""', "d1"), ('"a ""b"" c"', 'a "b" c'),
     ("e\u0301", "\u00e9"), ('"a"\u0308', '"a"\u0308'), ("\ufeff\u0301", "\u0301"), ("\ufa19", "\u795e"),
     ('"a', '"a'), ('a"b', 'a"b'), ('"', '"'), ('""', ""), ("", ""), ("  ", "")],
)  # fmt: skip
def test_an_id_is_composed_and_has_no_quotes_and_no_white_space_around_it(written: str, plain: str) -> None:
    assert plain_id(written) == plain
    assert plain_id(plain) == plain


def test_a_decoded_id_is_composed() -> None:
    assert decoded_id("e%CC%81%20e\u0301", "a.trec:1") == "\u00e9 \u00e9"


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("What, please, is it?", "what-please-is-it"),
        ("हिन्दी में", "हिन्दी-में"),
        ("เปิดกี่โมง", "เปิดกี่โมง"),
        ("Cafe\u0301", "caf\u00e9"),
        ("مَرحَبًا", "مَرحَبًا"),
        ("snake_case and-dash", "snake_case-and-dash"),
        ("?!", "untitled"),
    ],
)
def test_a_made_id_keeps_letters_with_their_marks(text: str, made: str) -> None:
    assert slug(text, set()) == unicodedata.normalize("NFC", made)
