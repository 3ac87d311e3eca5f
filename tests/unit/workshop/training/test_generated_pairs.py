"""Pairs of a generated query and its document, and their batches."""

import json
import random
from pathlib import Path

import pytest

from workshop.training.generated_pairs import batches, read_pairs


def test_pairs_are_of_the_corpus_and_need_neither_queries_nor_judgments(tmp_path: Path) -> None:
    documents = [{"_id": f"d{place}", "title": "", "text": f"text {place}"} for place in range(3)]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(one) + "\n" for one in documents))
    lines = [
        {
            "_id": f"d{place}",
            "doc2query": {"model": "toy@0123456789ab", "queries": [f"q{place}{one}" for one in "ab"[:place]]},
        }
        for place in range(3)
    ]
    (tmp_path / "doc2query.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    passages, pairs = read_pairs(tmp_path, tmp_path / "doc2query.jsonl")
    assert [passage.strip() for passage in passages] == ["text 0", "text 1", "text 2"]
    assert pairs == [("q1a", 1), ("q2a", 2), ("q2b", 2)]


def test_a_batch_has_each_document_once_and_an_epoch_each_pair_once() -> None:
    pairs = [(f"q{place}-{one}", place) for place in range(7) for one in range(3)]
    for size in (5, 7):
        found = list(batches(pairs, size, random.Random(3)))
        assert all(len({place for _, place in batch}) == len(batch) <= size for batch in found)
        assert found == list(batches(pairs, size, random.Random(3)))
    assert sorted(pair for batch in found for pair in batch) == sorted(pairs)


@pytest.mark.parametrize("pairs", [[("a", 0)], [("a", 0), ("b", 0)]])
def test_a_pair_without_a_negative_is_left_out(pairs: list[tuple[str, int]]) -> None:
    assert list(batches(pairs, 4, random.Random(1))) == []
