"""Keeps what checking a dataset found, so that a later step of the same run need not read the corpus again."""

import time
from pathlib import Path
from typing import Self

from evaluator.datasets.judgments import qrels_file, read_judgments
from evaluator.datasets.queries import queries_file, read_queries
from evaluator.datasets.reader import Dataset, DatasetCounts, corpus_file, judgments_to_send, read_dataset
from evaluator.datasets.text_files import sha256
from services.contracts.base import Count, Wire
from services.contracts.collections import FieldKind

# Clocks of file systems are coarse: a change this soon after another may leave the same times (git: racy entries).
_COARSEST_CLOCK_NS = 2_000_000_000


class FileStamp(Wire):
    """What the file system records of a file. No program can set `changed_ns` (ctime), unlike the time of writing."""

    bytes: Count
    inode: Count
    written_ns: int
    changed_ns: int
    looked_ns: int  # when this was asked

    @classmethod
    def of(cls, path: Path) -> Self:
        """Asks the file system."""
        now, found = time.time_ns(), path.stat()
        return cls(
            bytes=found.st_size,
            inode=found.st_ino,
            written_ns=found.st_mtime_ns,
            changed_ns=found.st_ctime_ns,
            looked_ns=now,
        )

    def is_of_same_content(self, other: Self) -> bool:
        """Returns whether nothing was written between the two looks; False where the times are too close to decide."""
        return (
            self.changed_ns + _COARSEST_CLOCK_NS < self.looked_ns
            and self.model_copy(update={"looked_ns": other.looked_ns}) == other
        )


class DatasetRecord(Wire):
    """dataset.json of a run: the outcome of `read_dataset`, and which files it was of."""

    strict: bool
    skip_unsendable: bool = False
    corpus: FileStamp
    sha256: dict[str, str]  # by file name
    self_retrieved: tuple[str, ...]
    fields: dict[str, FieldKind]
    counts: DatasetCounts


def read_or_recall(
    directory: Path, split: str, *, strict: bool, skip_unsendable: bool = False, record: DatasetRecord | None
) -> tuple[Dataset, DatasetRecord]:
    """Returns the dataset and its record: recalled if no file changed since, else by `read_dataset`.

    Queries and judgments are read and hashed each time. The corpus is not read where its stamp shows that it is the
    same, and hashed where the stamp cannot show it.
    """
    if (
        record is not None
        and (strict, skip_unsendable) == (record.strict, record.skip_unsendable)
        and (dataset := _recalled(directory, split, record)) is not None
    ):
        return dataset, record
    stamp = FileStamp.of(corpus_file(directory))  # before reading: whatever is written from now on changes it
    dataset = read_dataset(directory, split, strict=strict, skip_unsendable=skip_unsendable)
    return dataset, DatasetRecord(
        strict=strict,
        skip_unsendable=skip_unsendable,
        corpus=stamp,
        sha256=dict(dataset.hashes),
        self_retrieved=tuple(sorted(dataset.self_retrieved)),
        fields=dict(dataset.schema),
        counts=dataset.counts,
    )


def _recalled(directory: Path, split: str, record: DatasetRecord) -> Dataset | None:
    corpus, asked, qrels = corpus_file(directory), queries_file(directory), qrels_file(directory, split)
    if record.sha256.keys() != {corpus.name, asked.name, qrels.name}:
        return None
    queries = read_queries(asked, skip_unsendable=record.skip_unsendable)
    judgments = read_judgments(qrels, strict=record.strict)
    if (queries.sha256, judgments.sha256) != (record.sha256[asked.name], record.sha256[qrels.name]):
        return None
    same = record.corpus.is_of_same_content(FileStamp.of(corpus))
    if not same and sha256(corpus) != record.sha256[corpus.name]:
        return None
    return Dataset(
        directory=directory,
        split=split,
        corpus=corpus,
        queries=queries.texts,
        judgments=judgments_to_send(judgments, queries),
        self_retrieved=frozenset(record.self_retrieved),
        schema=record.fields,
        counts=record.counts,
        hashes=record.sha256,
    )
