"""Makes a collection in BEIR layout of a user's documents and questions: corpus.jsonl, queries.jsonl, qrels/test.tsv.

Without any judgment, queries have empty cells, so that pipelines can be pooled for them. Leaves the reading of each
kind of source to its module. The folder appears whole or not at all.
"""

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from evaluator.datasets import field_sources, text_sources
from evaluator.datasets.corpus import CORPUS, corpus_document
from evaluator.datasets.elasticsearch_index import index_rows
from evaluator.datasets.field_sources import UNUSED, FieldNames, field_name, json_rows, named_documents, table_rows
from evaluator.datasets.metadata_schema import SchemaInference
from evaluator.datasets.placed_documents import PlacedDocument, ReadingNotes
from evaluator.datasets.queries import QUERIES
from evaluator.datasets.questions import DocumentNames, Questions, known_items, read_questions
from evaluator.datasets.text_files import HashedLines, json_objects
from evaluator.datasets.text_sources import text_documents
from evaluator.errors import DatasetError, WrongOption
from evaluator.progress import PLAIN_EVERY_S, print_at_intervals, shown

QRELS = Path("qrels", "test.tsv")
KNOWN_ITEM = "known-item"
FOLDER = "folder"  # metadata of files: the names of folders are words, also where they are years


@dataclass(frozen=True, slots=True)
class NewCollection:
    """What a new collection holds, and what was changed or left out: of which kind, how often, where first."""

    documents: int
    queries: int
    known_items: int
    judgments: int
    changes: tuple[tuple[str, str, str], ...]


def make_collection(
    sources: Sequence[str],
    directory: Path,
    *,
    fields: FieldNames,
    by_heading: bool,
    question_file: Path | None,
    proposals: int,
    seed: int,
) -> NewCollection:
    """Writes the collection. Raises DatasetError with every fault of the files, and WrongOption; then writes nothing.

    `proposals`: how many known-item queries are added to those of the file.
    """
    _expect_used(sources, fields, by_heading=by_heading)
    notes, names, questions = ReadingNotes(), DocumentNames(), Questions()
    with new_directory(directory) as made:
        documents = _documents(sources, fields, notes, by_heading=by_heading)
        field_names = _write_corpus(made / CORPUS, documents, names, notes)
        unused = "".join(which for what, _, which in notes.rows if what == UNUSED) or "none"
        for name in fields.metadata:
            if (kept := field_name(name)) not in field_names:
                notes.wrong(
                    f"--metadata: no document has a value of `{name}`; once for each, give some of: {shown(unused)}"
                )
            elif kept != name:
                notes.left_out("fields under another name", f"{name} as {kept}")
        if question_file is not None:
            with _adding_fault(notes):
                read_questions(question_file, names, questions, notes)
        notes.expect_nothing_wrong()
        known = known_items(made / CORPUS, proposals, seed) if proposals else {}
        proposed = {sentence: document for sentence, document in known.items() if sentence not in questions.ids}
        for sentence, document in proposed.items():
            questions.judge(questions.add(sentence, KNOWN_ITEM), document, 1, QUERIES)
        if not questions.texts:
            raise DatasetError("--questions: no document has a sentence of 6 to 25 words that no other document has")
        _write_questions(made, questions)
    return NewCollection(
        documents=len(names.ids),
        queries=len(questions.texts),
        known_items=len(proposed),
        judgments=sum(map(len, questions.grades.values())),
        changes=notes.rows,
    )


@contextmanager
def new_directory(directory: Path) -> Iterator[Path]:
    """Yields an empty folder, which takes the place of `directory` at the end of the block. An error leaves none.

    Raises WrongOption where `directory` is there and not empty.
    """
    target = directory.resolve()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise WrongOption(f"{directory}: it is there and not empty; name a new folder, or remove this one")
    part = target.with_name(f".{target.name}.{os.getpid()}.part")  # another process may write the same folder
    part.mkdir(parents=True)
    try:
        yield part
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _documents(
    sources: Sequence[str], fields: FieldNames, notes: ReadingNotes, *, by_heading: bool
) -> Iterator[tuple[PlacedDocument, bool]]:
    """Yields the documents, each with whether its metadata is as written: texts, of which some mean numbers."""
    for source in sources:
        with _adding_fault(notes):
            documents, as_written = _of_source(source, fields, notes, by_heading=by_heading)
            for document in documents:
                yield document, as_written


def _of_source(
    source: str, fields: FieldNames, notes: ReadingNotes, *, by_heading: bool
) -> tuple[Iterator[PlacedDocument], bool]:
    if source.startswith(("http://", "https://")):
        return named_documents(source, index_rows(source, notes), fields, notes), False
    path = Path(source)
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if _is_text(path):
        return text_documents(path, fields, notes, by_heading=by_heading), True
    if suffix in field_sources.TABLES:
        return named_documents(source, table_rows(path, notes), fields, notes, one_header=True), True
    if suffix in field_sources.OBJECTS:
        return named_documents(source, json_rows(path, notes), fields, notes), False
    known = ", ".join([*text_sources.TEXTS, *field_sources.TABLES, *field_sources.OBJECTS])
    raise DatasetError(f"{source}: neither a folder, nor an address, nor a file whose name ends with {known}")


def _is_text(path: Path) -> bool:
    return path.is_dir() or path.suffix.lower() in text_sources.TEXTS


def _expect_used(sources: Sequence[str], fields: FieldNames, *, by_heading: bool) -> None:
    """Raises WrongOption for an option that none of the sources heeds."""
    texts = [_is_text(Path(source)) for source in sources]
    if any((fields.id, fields.title, fields.texts)) and all(texts):
        raise WrongOption("--id, --title, --text: no source has fields; leave them out for Markdown and text")
    if by_heading and not any(texts):
        raise WrongOption("--by heading: no source is Markdown; leave it out for documents with fields")


@contextmanager
def _adding_fault(notes: ReadingNotes) -> Iterator[None]:
    """Adds a DatasetError, which ends the reading of one source, to the faults."""
    try:
        yield
    except DatasetError as error:
        notes.wrong(error)


def _write_corpus(
    path: Path, documents: Iterable[tuple[PlacedDocument, bool]], names: DocumentNames, notes: ReadingNotes
) -> Set[str]:
    """Writes the documents, and notes what is wrong, changed or left out. Returns the names of metadata fields."""
    print_line = print_at_intervals(PLAIN_EVERY_S)
    print_line("Reading documents ...")
    inference = SchemaInference()
    with path.open("w", encoding="utf-8") as file:
        for (place, value), as_written in documents:
            print_line(f"Reading documents: {len(names.ids)} so far")
            try:
                read = corpus_document(value, len(json.dumps(value)), place)
            except DatasetError as error:
                notes.wrong(error)
                continue
            document = read.document
            if read.dropped:
                notes.left_out("documents with metadata that is nested, or under a name that is no word", place)
            if not document.passage.strip():
                notes.left_out("documents with neither a title nor a text", place)
                continue
            if document.id in names.ids:
                notes.wrong(f"{place}: the id {document.id!r} stood above already")
                continue
            if document.stripped:
                notes.left_out("documents with control characters, which are removed", place)
            if read.trimmed:
                notes.left_out("ids that are changed: no white space or quotes around them, and NFC", place)
            names.add(document)
            inference.add(document.metadata, document.metadata.keys() - {FOLDER} if as_written else ())
            line = {"_id": document.id, "title": document.title, "text": document.text}
            file.write(_json(line | ({"metadata": document.metadata} if document.metadata else {})))
    if not names.ids:
        notes.wrong("no document in all sources")
    if numbers := inference.numbers():
        _write_numbers(path, numbers)
    schema, mixed, undeclared = inference.result()
    for name in mixed:
        notes.left_out("fields that are keywords, because not all values are numbers of one form, or dates", name)
    for name in undeclared:
        notes.left_out("fields that filters cannot use: a text is too long, or there are more than 256", name)
    return schema.keys() | {*undeclared}


def _write_numbers(path: Path, fields: Set[str]) -> None:
    """Makes numbers of the texts of these fields, in the whole corpus."""
    texts = path.rename(path.with_suffix(".texts"))
    with path.open("w", encoding="utf-8") as file:
        for _, document, _ in json_objects(texts, HashedLines(texts)):
            if isinstance(metadata := document.get("metadata"), dict):
                metadata |= {name: json.loads(str(metadata[name])) for name in fields & metadata.keys()}
            file.write(_json(document))
    texts.unlink()


def _write_questions(directory: Path, questions: Questions) -> None:
    with (directory / QUERIES).open("w", encoding="utf-8") as file:
        for identity, text in questions.texts.items():
            file.write(_json({"_id": identity, "text": text, "metadata": {"origin": questions.origins[identity]}}))
    (directory / QRELS).parent.mkdir()
    with (directory / QRELS).open("w", encoding="utf-8") as file:
        file.write("query-id\tcorpus-id\tscore\n")
        if not questions.grades:
            file.writelines(f"{identity}\t\t\n" for identity in questions.texts)
        for identity, judged in questions.grades.items():
            file.writelines(f"{identity}\t{document}\t{grade}\n" for document, grade in judged.items())


def _json(value: object) -> str:
    return f"{json.dumps(value, ensure_ascii=False)}\n"
