"""A step recalls what an earlier one found out about the dataset, and misses no change of its files."""

import os
import time
from pathlib import Path

import pytest

from evaluator.datasets.record import DatasetRecord, FileStamp, read_or_recall
from evaluator.errors import DatasetError
from tests.support.gateway_stub import write_shop

LONG_AGO_S = 1_000_000_000


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return write_shop(tmp_path / "shop")


def recorded(shop: Path, record: DatasetRecord | None = None) -> DatasetRecord:
    return read_or_recall(shop, "test", strict=False, record=record)[1]


def settled(record: DatasetRecord) -> DatasetRecord:
    """Returns the record as if it had been taken long after the last change, so that its stamp is trusted."""
    return record.model_copy(
        update={"corpus": record.corpus.model_copy(update={"looked_ns": time.time_ns() + 10 * 10**9})}
    )


def test_what_is_recalled_is_what_was_read(shop: Path) -> None:
    read, record = read_or_recall(shop, "test", strict=False, record=None)
    recalled, again = read_or_recall(shop, "test", strict=False, record=record)
    assert again is record
    assert (recalled.queries, recalled.judgments, recalled.self_retrieved, recalled.schema, recalled.counts) == (
        read.queries, read.judgments, read.self_retrieved, read.schema, read.counts,
    )  # fmt: skip
    assert (recalled.hashes, list(recalled.documents())) == (read.hashes, list(read.documents()))
    assert DatasetRecord.model_validate_json(record.model_dump_json()) == record


def test_a_corpus_that_is_still_the_same_is_neither_read_nor_hashed_again(shop: Path) -> None:
    record = settled(recorded(shop))
    unlike = record.model_copy(update={"sha256": {**record.sha256, "corpus.jsonl": "0" * 64}})  # hashing would differ
    assert recorded(shop, unlike) is unlike


def test_where_the_stamp_cannot_tell_the_hash_does(shop: Path) -> None:
    record = settled(recorded(shop))
    # As if its attributes changed since: a real change within a tick of the file system's clock keeps the ctime.
    earlier = record.corpus.model_copy(update={"changed_ns": record.corpus.changed_ns - 1})
    record = record.model_copy(update={"corpus": earlier})
    assert recorded(shop, record) is record
    unlike = record.model_copy(update={"sha256": {**record.sha256, "corpus.jsonl": "0" * 64}})
    assert recorded(shop, unlike).sha256 == record.sha256


def rewrite(path: Path, old: str, new: str) -> None:
    """Changes the content alone: size and time of writing stay."""
    times = path.stat()
    path.write_text(path.read_text().replace(old, new))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert path.stat().st_size == times.st_size


@pytest.mark.parametrize("old_file", [True, False], ids=["written long ago", "written now"])
def test_a_change_that_keeps_size_and_time_of_writing_is_noticed(shop: Path, old_file: bool) -> None:
    corpus = shop / "corpus.jsonl"
    if old_file:
        os.utime(corpus, (LONG_AGO_S, LONG_AGO_S))
    record = recorded(shop)
    rewrite(corpus, "a brass bell", "a glass bell")
    changed = recorded(shop, record)
    assert changed.sha256["corpus.jsonl"] != record.sha256["corpus.jsonl"]


@pytest.mark.parametrize(("file", "old", "new"), [("queries.jsonl", "oil chain", "oil train"),
                                                  ("qrels/test.tsv", "q1\td1\t2", "q1\td1\t3")])  # fmt: skip
def test_changed_queries_and_judgments_are_noticed(shop: Path, file: str, old: str, new: str) -> None:
    record = settled(recorded(shop))
    rewrite(shop / file, old, new)
    assert recorded(shop, record).sha256 != record.sha256


def test_a_file_that_took_the_place_of_another_is_noticed(shop: Path) -> None:
    record = settled(recorded(shop))
    fresh = shop / "fresh.jsonl"
    fresh.write_text((shop / "corpus.jsonl").read_text().replace("a brass bell", "a glass bell"))
    fresh.replace(shop / "corpus.jsonl")
    assert recorded(shop, record).sha256["corpus.jsonl"] != record.sha256["corpus.jsonl"]


def test_a_stamp_taken_just_after_a_change_is_not_trusted(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    assert not FileStamp.of(path).is_of_same_content(FileStamp.of(path))


def test_strict_reads_anew_what_was_recorded_without_it(shop: Path) -> None:
    record = settled(recorded(shop))
    with pytest.raises(DatasetError, match="negative"):
        read_or_recall(shop, "test", strict=True, record=record)


def test_documents_are_drawn_by_position_and_a_changed_corpus_is_noticed_then(shop: Path) -> None:
    dataset, _ = read_or_recall(shop, "test", strict=False, record=None)
    assert [document.id for document in dataset.documents_at({0, 4})] == ["d1", "q4"]
    rewrite(shop / "corpus.jsonl", "a steel bell", "a stone bell")
    with pytest.raises(DatasetError, match="changed"):
        list(dataset.documents_at({0}))
