"""A step recalls what an earlier one found out about the dataset, and misses no change of its files."""

import os
from pathlib import Path

import pytest

from evaluator.datasets.reader import DatasetRecord, read_or_recall
from evaluator.errors import DatasetError


def recorded(shop: Path, record: DatasetRecord | None = None) -> DatasetRecord:
    return read_or_recall(shop, "test", strict=False, record=record)[1]


def test_what_is_recalled_is_what_was_read(shop: Path) -> None:
    read, record = read_or_recall(shop, "test", strict=False, record=None)
    recalled, again = read_or_recall(shop, "test", strict=False, record=record)
    assert again is record
    assert (recalled.queries, recalled.judgments, recalled.self_retrieved, recalled.schema, recalled.counts) == (
        read.queries, read.judgments, read.self_retrieved, read.schema, read.counts,
    )  # fmt: skip
    assert (recalled.hashes, list(recalled.documents())) == (read.hashes, list(read.documents()))
    assert DatasetRecord.model_validate_json(record.model_dump_json()) == record


def rewrite(path: Path, old: str, new: str) -> None:
    """Changes the content alone: size and time of writing stay."""
    times = path.stat()
    path.write_text(path.read_text().replace(old, new))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert path.stat().st_size == times.st_size


def test_a_change_that_keeps_size_and_time_of_writing_is_noticed(shop: Path) -> None:
    record = recorded(shop)
    rewrite(shop / "corpus.jsonl", "a brass bell", "a glass bell")
    changed = recorded(shop, record)
    assert changed.sha256["corpus.jsonl"] != record.sha256["corpus.jsonl"]


@pytest.mark.parametrize(("file", "old", "new"), [("queries.jsonl", "oil chain", "oil train"),
                                                  ("qrels/test.tsv", "q1\td1\t2", "q1\td1\t3")])  # fmt: skip
def test_changed_queries_and_judgments_are_noticed(shop: Path, file: str, old: str, new: str) -> None:
    record = recorded(shop)
    rewrite(shop / file, old, new)
    assert recorded(shop, record).sha256 != record.sha256


def test_strict_reads_anew_what_was_recorded_without_it(shop: Path) -> None:
    record = recorded(shop)
    with pytest.raises(DatasetError, match="negative"):
        read_or_recall(shop, "test", strict=True, record=record)


def test_documents_are_drawn_by_position_and_a_changed_corpus_is_noticed_then(shop: Path) -> None:
    dataset, _ = read_or_recall(shop, "test", strict=False, record=None)
    assert [document.id for document in dataset.documents({0, 4})] == ["d1", "q4"]
    rewrite(shop / "corpus.jsonl", "a steel bell", "a stone bell")
    with pytest.raises(DatasetError, match="changed"):
        list(dataset.documents({0}))
