"""Queries that repeat one another or the passage are dropped; the stamp covers all that changes queries."""

import re
from collections.abc import Sequence

import pytest

from evaluator.errors import EvaluationError
from services.contracts.expansions import GeneratedQueries
from workshop.doc2query.generation import distinct, stamp_of

PASSAGE = "Oil the chain. Wipe it off with a dry rag!"


class Fixed:
    weights_sha256 = "0123456789abcdef" * 4

    def __init__(self, settings: str = "top 10") -> None:
        self.settings = settings

    def generate(self, passage: str, count: int, seed: int) -> Sequence[str]:
        raise AssertionError("a stamp needs no query")


@pytest.mark.parametrize(
    ("queries", "kept"),
    [
        (["oil chain", "Chain, oil?", "oil the rag"], ["oil chain", "oil the rag"]),
        (["", " ?! ", "why oil"], ["why oil"]),
        (["the chain wipe it", "the chains wipe"], ["the chains wipe"]),
        (["why\x00 oil \n it"], ["why oil it"]),
        (["ça grince", "ÇA GRINCE !"], ["ça grince"]),
        (["a dry", "dry rag oil"], ["dry rag oil"]),
    ],
)
def test_copies_repetitions_and_empty_queries_are_dropped(queries: list[str], kept: list[str]) -> None:
    assert distinct(queries, PASSAGE) == tuple(kept)


def test_queries_of_other_scripts_are_compared_by_whole_words() -> None:
    queries = ["हिन्दी भाषा", "हाँ नौ दिन", "नौ हाँ दिन", "सीता की", "सती की", "刹车片", "更换刹车"]
    assert distinct(queries, "自行车的刹车片要更换。") == ("हिन्दी भाषा", "हाँ नौ दिन", "सीता की", "सती की", "更换刹车")


def test_a_query_is_cut_to_what_the_wire_takes() -> None:
    (query,) = distinct(["word " * 1_000], PASSAGE)
    assert GeneratedQueries(model="toy@0123456789ab", queries=(query,)).queries == (query,)


def test_the_stamp_names_the_weights_and_changes_with_every_setting() -> None:
    stamps = [
        stamp_of(Fixed(), "toy", 5, 0),
        stamp_of(Fixed(), "toy", 6, 0),
        stamp_of(Fixed(), "toy", 5, 1),
        stamp_of(Fixed("top 20"), "toy", 5, 0),
    ]
    assert len(set(stamps)) == 4
    assert all(re.fullmatch(r"toy\+[0-9a-f]{8}@0123456789ab", stamp) for stamp in stamps)
    with pytest.raises(EvaluationError, match="rename"):
        stamp_of(Fixed(), "my model", 5, 0)
