"""Millions of ids are held as hashes; those that stand twice, and those that are missing, are found."""

import unicodedata

import pytest

from evaluator.datasets.ids import IdHashes, decoded_id, plain_id, slug


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


def test_missing_and_repeated_ids_are_found_among_many() -> None:
    ids = IdHashes()
    for number in [*range(50_000), 7, 7, 123]:
        ids.add(f"d{number}")
    assert len(ids) == 50_003
    assert ids.missing(f"d{number}" for number in range(49_990, 50_010)) == {f"d{n}" for n in range(50_000, 50_010)}
    assert ids.missing([]) == set()
    assert ids.repeated() == {hash("d7"), hash("d123")}
    ids.add("d50000")
    assert ids.missing(["d50000", "d50001"]) == {"d50001"}


def test_of_no_ids_every_id_is_missing() -> None:
    ids = IdHashes()
    assert ids.repeated() == frozenset()
    assert ids.missing(["d1"]) == {"d1"}


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
