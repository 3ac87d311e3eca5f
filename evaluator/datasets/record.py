"""Keeps what checking a dataset found, so that a later step of the same run need not read the corpus again."""

from pathlib import Path

from evaluator.datasets.judgments import qrels_file, read_judgments
from evaluator.datasets.queries import queries_file, read_queries
from evaluator.datasets.reader import Dataset, DatasetCounts, corpus_file, judgments_to_send, read_dataset
from evaluator.datasets.text_files import sha256
from services.contracts.base import Wire
from services.contracts.collections import FieldKind


class DatasetRecord(Wire):
    """dataset.json of a run: the outcome of `read_dataset`, and which files it was of."""

    strict: bool
    skip_unsendable: bool = False
    sha256: dict[str, str]  # by file name
    self_retrieved: tuple[str, ...]
    fields: dict[str, FieldKind]
    counts: DatasetCounts


def read_or_recall(
    directory: Path, split: str, *, strict: bool, skip_unsendable: bool = False, record: DatasetRecord | None
) -> tuple[Dataset, DatasetRecord]:
    """Returns the dataset and its record: recalled if no file changed since, else by `read_dataset`.

    Queries and judgments are read each time. The corpus is hashed and not parsed.
    """
    if (
        record is not None
        and (strict, skip_unsendable) == (record.strict, record.skip_unsendable)
        and (dataset := _recalled(directory, split, record)) is not None
    ):
        return dataset, record
    dataset = read_dataset(directory, split, strict=strict, skip_unsendable=skip_unsendable)
    return dataset, DatasetRecord(
        strict=strict,
        skip_unsendable=skip_unsendable,
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
    if sha256(corpus) != record.sha256[corpus.name]:
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
