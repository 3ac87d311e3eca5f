"""Reads and checks a collection in BEIR layout: corpus.jsonl, queries.jsonl, qrels/<split>.tsv. Sends nothing.

Each of them may be packed with gzip; queries may be TREC topics, judgments TREC's or JSON lines. Each file has a module
that reads it; here they are checked against each other, and every decision is counted. A later step of a run recalls
the outcome, and reads the corpus only if a file changed.
"""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from evaluator.datasets.corpus import CORPUS, CORPUS_FIELDS, OTHER_TEXTS, CorpusDocument, corpus_documents
from evaluator.datasets.judgments import Judgments, qrels_file, read_judgments
from evaluator.datasets.metadata_schema import SchemaInference
from evaluator.datasets.queries import QUERIES, Queries, queries_file, read_queries
from evaluator.datasets.text_files import HashedLines, find_one, sha256
from evaluator.errors import DatasetError, command_line
from evaluator.progress import shown
from services.contracts.base import Count, Wire
from services.contracts.collections import FieldKind
from services.contracts.documents import Document

# Bounds messages for a corpus that uses identifiers as field names.
MOST_NAMES = 32
# Shares above which a report warns.
MOST_MISSING = 0.01


class DatasetCounts(Wire):
    """Counts of the files, and of every correction made while reading them: nothing is dropped uncounted."""

    documents: Count
    queries: Count  # in queries.jsonl, judged or not, without those that were left out
    judged_queries: Count
    queries_without_judgments: Count  # never sent
    judged_without_positives: Count  # sent; they score 0 by definition and count in every mean
    judgments: Count
    judged_documents_missing: Count  # judged, but not in the corpus; they stay in the denominators
    negative_judgments: Count  # treated as unjudged
    duplicate_judgments: Count
    self_retrieved: Count  # queries whose own text is a document under their own id
    query_characters_stripped: Count
    document_characters_stripped: Count  # control characters and lone surrogates
    metadata_values_dropped: Count  # nested, or under a name that the wire does not allow
    metadata_fields_undeclared: tuple[str, ...]  # a text is too long for a filter, or they are above 256
    metadata_fields_mixed: tuple[str, ...] = ()  # keywords, because not all values are numbers, or dates
    fields_not_read: tuple[str, ...] = ()  # of the corpus (the first 32): BEIR has no such field
    positive_judgments: Count = 0
    positive_judgments_missing: Count = 0  # their document is not in the corpus: no pipeline can find it
    documents_without_text: Count = 0  # neither title nor text; loaded, and found by nothing
    texts_elsewhere: Count = 0  # documents without `text` that have one under another name, such as `contents`
    ids_trimmed: Count = 0  # of documents and queries: white space or quotes around them went, or they were no NFC
    queries_unsendable: Count = 0  # left out, because no request can carry them
    judged_queries_unsendable: Count = 0  # of these; in no denominator, and their judgments are not counted

    @property
    def warnings(self) -> tuple[str, ...]:
        """The reasons not to quote figures over this collection as they are."""
        warnings = []
        for count, total, what in (
            (self.positive_judgments_missing, self.positive_judgments, "positive judgments name documents that the "
             "corpus lacks: no pipeline can find them, and they stay in the denominators"),
            (self.documents_without_text, self.documents, "documents have neither a title nor a text: nothing finds "
             "them"),
            (self.texts_elsewhere, self.documents, "documents have no `text`, but one under another name, which is not "
             "read; rename it to `text`"),
        ):  # fmt: skip
            if count > MOST_MISSING * total:
                warnings.append(f"dataset: {count} of {total} {what}")
        return tuple(warnings)

    @property
    def remarks(self) -> tuple[str, ...]:
        """All that reports state beside figures: `warnings`, `unjudged` and `left_out`."""
        return (*self.warnings, *(remark for remark in (self.unjudged, self.left_out) if remark))

    @property
    def unjudged(self) -> str | None:
        """The sentence on a dataset whose queries have no judgment yet; None where one has."""
        if self.judgments:
            return None
        return (
            "dataset: it judges no document, so that every figure of quality is 0 without added judgments; "
            f"`{command_line('judge', 'pool', 'latest')}` begins with the documents that pipelines find"
        )

    @property
    def left_out(self) -> str | None:
        """The sentence on judged queries that were left out; None without any."""
        if not self.judged_queries_unsendable:
            return None
        every = self.judged_queries + self.judged_queries_unsendable
        return (
            f"dataset: {self.judged_queries_unsendable} of {every} judged queries cannot be sent and were LEFT OUT: "
            "they are in no figure and in no denominator"
        )


@dataclass(frozen=True, slots=True)
class Dataset:
    """A checked collection. Queries and judgments are in memory; documents are streamed from the file."""

    directory: Path
    split: str
    corpus: Path
    queries: Mapping[str, str]
    judgments: Mapping[str, Mapping[str, int]]
    self_retrieved: frozenset[str]
    schema: Mapping[str, FieldKind]
    counts: DatasetCounts
    hashes: Mapping[str, str]  # sha256 by file name

    def documents(self, positions: Container[int] | None = None) -> Iterator[Document]:
        """Yields the corpus in file order, or those at `positions` (the first is 0), parsing no other.

        Raises DatasetError at the end if it is not the corpus that was checked.
        """
        lines = HashedLines(self.corpus)
        for read in corpus_documents(self.corpus, lines, positions):
            yield read.document
        if lines.sha256 != self.corpus_sha256:
            raise DatasetError(f"{self.corpus} changed after it was checked; begin again")

    @property
    def corpus_sha256(self) -> str:
        """The sha256 of the corpus' file."""
        return self.hashes[self.corpus.name]


class DatasetRecord(Wire):
    """dataset.json of a run: the outcome of `read_dataset`, and which files it was of."""

    strict: bool
    skip_unsendable: bool = False
    sha256: dict[str, str]  # by file name
    self_retrieved: tuple[str, ...]
    fields: dict[str, FieldKind]
    counts: DatasetCounts


@dataclass(slots=True)
class _CorpusSummary:
    """Collects over all documents what is needed once they have been read."""

    ids: set[str] = field(default_factory=set)
    own: set[str] = field(default_factory=set)
    unread: set[str] = field(default_factory=set)
    inference: SchemaInference = field(default_factory=SchemaInference)
    dropped: int = 0
    stripped: int = 0
    trimmed: int = 0
    empty: int = 0
    elsewhere: int = 0
    bodies: int = 0

    def add(self, read: CorpusDocument, query: str | None) -> None:
        """Adds a document, and the query of the same id. Raises DatasetError for an id that stood above."""
        document = read.document
        if document.id in self.ids:
            raise DatasetError(f"{read.place}: the id {document.id!r} stood above already")
        self.ids.add(document.id)
        if read.unread:
            self.unread = set(sorted(self.unread | {shown(name) for name in read.unread})[:MOST_NAMES])
        self.empty += not document.passage.strip()
        self.elsewhere += read.text_elsewhere
        self.bodies += bool(document.text.strip())
        self.dropped += read.dropped
        self.stripped += document.stripped
        self.trimmed += read.trimmed
        self.inference.add(document.metadata)
        # Self-retrieval: the query is the document's text, or title and text, white space apart.
        if query is not None and query.split() in (document.text.split(), document.passage.split()):
            self.own.add(document.id)


def read_dataset(
    directory: Path, split: str = "test", *, strict: bool = False, skip_unsendable: bool = False
) -> Dataset:
    """Reads and checks every line once. Raises DatasetError with `file:line` for the first fault.

    `skip_unsendable`: leaves out, and counts, queries that no request can carry, which are a fault otherwise.
    """
    dataset, _ = read_or_recall(directory, split, strict=strict, skip_unsendable=skip_unsendable, record=None)
    return dataset


def read_or_recall(
    directory: Path, split: str, *, strict: bool, skip_unsendable: bool = False, record: DatasetRecord | None
) -> tuple[Dataset, DatasetRecord]:
    """Returns the dataset and its record: the given one if no file changed since, else a new one.

    Queries and judgments are read each time. The corpus of a given record is hashed and not parsed.
    """
    corpus, qrels, file = corpus_file(directory), qrels_file(directory, split), queries_file(directory)
    judgments = read_judgments(qrels, strict=strict)
    queries = read_queries(file, skip_unsendable=skip_unsendable)
    # Without the judgments of queries that were left out.
    grades = {query: judged for query, judged in judgments.grades.items() if query not in queries.unsendable}
    hashes = {file.name: queries.sha256, qrels.name: judgments.sha256}
    if (
        record is None
        or (strict, skip_unsendable) != (record.strict, record.skip_unsendable)
        or record.sha256.keys() != {corpus.name, *hashes}
        or any(record.sha256[name] != digest for name, digest in hashes.items())
        or record.sha256[corpus.name] != sha256(corpus)
    ):
        if orphans := [query for query in grades if query not in queries.texts]:
            raise DatasetError(
                f"{qrels}: judged, but not in {file.name}: {', '.join(orphans[:5])} ({len(orphans)} in all)"
            )
        if queries.trimmed and strict:
            raise DatasetError(f"{file}: ids with white space or quotes around them, or no NFC: {queries.trimmed}")
        lines = HashedLines(corpus)
        summary = _summarise(corpus, lines, queries, strict)
        counts, schema = _counted(corpus, qrels, judgments, grades, queries, summary, strict)
        record = DatasetRecord(
            strict=strict,
            skip_unsendable=skip_unsendable,
            sha256={corpus.name: lines.sha256, **hashes},
            self_retrieved=tuple(sorted(summary.own)),
            fields=schema,
            counts=counts,
        )
    dataset = Dataset(
        directory=directory,
        split=split,
        corpus=corpus,
        queries=queries.texts,
        judgments=grades,
        self_retrieved=frozenset(record.self_retrieved),
        schema=record.fields,
        counts=record.counts,
        hashes=record.sha256,
    )
    return dataset, record


def corpus_file(directory: Path) -> Path:
    """Returns the corpus of a directory, packed or not. Raises DatasetError without one; reads nothing of it."""
    corpus = find_one(directory, (CORPUS,))
    if corpus is None or not corpus.is_file():
        raise DatasetError(
            f"{directory}: no {CORPUS} there; a BEIR directory has {CORPUS}, {QUERIES} and qrels/; "
            "`datasets from` makes one of other files"
        )
    return corpus


def expect_files(directory: Path, split: str) -> None:
    """Raises DatasetError where corpus, queries or judgments are not there. Reads none of them."""
    corpus_file(directory)
    if not (queries := queries_file(directory)).is_file():
        raise DatasetError(f"{queries}: no such file")
    qrels_file(directory, split)


def _summarise(corpus: Path, lines: HashedLines, queries: Queries, strict: bool) -> _CorpusSummary:
    summary = _CorpusSummary()
    for read in corpus_documents(corpus, lines):
        if strict and read.dropped:
            raise DatasetError(f"{read.place}: metadata that the wire does not carry (without strict it is dropped)")
        if strict and read.unread:
            unread = shown(", ".join(sorted(read.unread)))
            raise DatasetError(f"{read.place}: {unread}: not read; a BEIR corpus has {', '.join(CORPUS_FIELDS)}")
        if strict and read.trimmed:
            raise DatasetError(
                f"{read.place}: _id: white space or quotes around it, or no NFC (without strict it is mended)"
            )
        summary.add(read, queries.texts.get(read.document.id))
    if not summary.ids:
        raise DatasetError(f"{corpus}:1: no document in the whole file")
    others = sorted(name for name in summary.unread if name.casefold() in OTHER_TEXTS)
    if summary.empty == len(summary.ids) or (others and not summary.bodies):
        what = "title or a text" if summary.empty == len(summary.ids) else "text"
        besides = f"; besides, there are: {', '.join(sorted(summary.unread))}" if summary.unread else ""
        raise DatasetError(f"{corpus}: no document has a {what}{besides}")
    return summary


def _counted(
    corpus: Path,
    qrels: Path,
    judgments: Judgments,
    grades: Mapping[str, Mapping[str, int]],
    queries: Queries,
    summary: _CorpusSummary,
    strict: bool,
) -> tuple[DatasetCounts, dict[str, FieldKind]]:
    missing = {name for judged in grades.values() for name in judged} - summary.ids
    if missing and strict:
        raise DatasetError(f"{qrels}: judged, but not in {corpus.name}: {', '.join(sorted(missing)[:5])}")
    positives = [name for judged in grades.values() for name, grade in judged.items() if grade > 0]
    positives_missing = sum(name in missing for name in positives)
    if not positives and any(grades.values()):
        raise DatasetError(f"{qrels}: no judgment above 0: every metric would be 0")
    if positives and positives_missing == len(positives):
        raise DatasetError(
            f"{qrels}: not one of the documents judged relevant is in {corpus.name}, for example {positives[0]!r}: "
            "every metric would be 0"
        )
    schema, mixed, undeclared = summary.inference.result()
    counts = DatasetCounts(
        documents=len(summary.ids),
        queries=len(queries.texts),
        judged_queries=len(grades),
        queries_without_judgments=len(queries.texts) - len(grades),
        judged_without_positives=sum(not any(grade > 0 for grade in judged.values()) for judged in grades.values()),
        judgments=sum(map(len, grades.values())),
        judged_documents_missing=len(missing),
        negative_judgments=judgments.negative,
        duplicate_judgments=judgments.duplicate,
        self_retrieved=len(summary.own),
        query_characters_stripped=queries.stripped,
        document_characters_stripped=summary.stripped,
        metadata_values_dropped=summary.dropped,
        metadata_fields_undeclared=undeclared,
        metadata_fields_mixed=mixed,
        fields_not_read=tuple(sorted(summary.unread)),
        positive_judgments=len(positives),
        positive_judgments_missing=positives_missing,
        documents_without_text=summary.empty,
        texts_elsewhere=summary.elsewhere,
        ids_trimmed=queries.trimmed + summary.trimmed,
        queries_unsendable=len(queries.unsendable),
        judged_queries_unsendable=len(judgments.grades) - len(grades),
    )
    return counts, schema
