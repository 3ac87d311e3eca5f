"""A synthetic collection: the same for the same seed, readable, and with words by Zipf's law."""

from collections import Counter
from pathlib import Path

import pytest

from evaluator.datasets.reader import read_dataset
from evaluator.datasets.synthetic import BATCH, VOCABULARY, _word, write_synthetic
from evaluator.errors import WrongOption


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("again", 1), ("other", 2)):
        write_synthetic(tmp_path / name, 300, 20, 55, seed)
    assert files(tmp_path / "one") == files(tmp_path / "again")
    assert files(tmp_path / "one") != files(tmp_path / "other")


def test_it_is_read_as_any_collection_and_each_query_is_of_words_of_its_document(tmp_path: Path) -> None:
    count = BATCH + 5
    write_synthetic(tmp_path / "made", count, 50, 12, 7)
    read = read_dataset(tmp_path / "made", "test", strict=True)
    assert (read.counts.documents, read.counts.judged_queries, read.counts.judgments) == (count, 50, 50)
    assert read.counts.remarks == ()
    texts = {document.id: set(document.text.split()) for document in read.documents()}
    assert len(texts) == count
    for query, grades in read.judgments.items():
        (document,) = grades
        assert set(read.queries[query].split()) <= texts[document]


def test_a_word_is_about_as_frequent_as_its_rank_says(tmp_path: Path) -> None:
    write_synthetic(tmp_path / "made", 4_000, 1, 55, 7)
    words = Counter(
        word for document in read_dataset(tmp_path / "made", "test").documents() for word in document.text.split()
    )
    assert 54 < words.total() / 4_000 < 56
    for rank in (2, 10, 100):
        assert words[_word(0)] / words[_word(rank - 1)] == pytest.approx(rank, rel=0.25)


def test_no_two_ranks_have_one_word() -> None:
    assert len({_word(rank) for rank in range(VOCABULARY)}) == VOCABULARY


def test_more_queries_than_documents_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongOption, match="--queries 3"):
        write_synthetic(tmp_path / "made", 2, 3, 55, 7)
    assert not (tmp_path / "made").exists()
