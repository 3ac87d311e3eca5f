"""Reads documents whose fields have names: rows of CSV and TSV, objects of JSON and JSON lines."""

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from evaluator.datasets.placed_documents import PlacedDocument, ReadingNotes
from evaluator.datasets.text_files import MOST_LINE_BYTES, HashedLines, json_object
from evaluator.errors import DatasetError
from evaluator.printable import shown

TABLES = (".csv", ".tsv")
OBJECTS = (".json", ".jsonl", ".ndjson")

# Names that a field has where none was given, the preferred one first.
IDS = ("_id", "id", "docno", "doc-id", "docid", "document-id", "corpus-id", "passage-id", "pid")
TITLES = ("title", "heading", "headline", "subject", "name")
TEXTS = ("text", "contents", "content", "body", "abstract", "passage", "document", "description")
METADATA = "metadata"  # an object of it is taken as it is

_NUMBER = re.compile(r"-?(0|[1-9]\d{0,15})(\.\d{1,15})?")
_SPACE = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True, slots=True)
class FieldNames:
    """The fields that hold id, title and texts. Without a name, the first known one that a document has.

    `a.b` is the field `b` of the object `a`. Several texts are joined by line breaks.
    """

    id: str | None = None
    title: str | None = None
    texts: tuple[str, ...] = ()
    metadata: tuple[str, ...] = ()  # what filters and facets may use later

    @property
    def given(self) -> frozenset[str]:
        """The names that the user gave."""
        return frozenset(name for name in (self.id, self.title, *self.texts, *self.metadata) if name is not None)

    def document(self, fields: Mapping[str, object], place: str) -> tuple[dict[str, object], set[str]]:
        """Returns what corpus.jsonl would hold, and the names that it was made of. Raises DatasetError."""
        identity = self.id or named_field(fields, IDS)
        if identity is None or (value := _value(fields, identity)) is None:
            known = f"a field `{identity}`" if identity else f"one of the fields {', '.join(IDS)}"
            raise DatasetError(
                f"{place}: no id: expected {known}; there are: {shown(', '.join(fields))}; name one with --id"
            )
        title = self.title or named_field(fields, TITLES)
        found = named_field(fields, TEXTS)
        texts = self.texts or ((found,) if found is not None else ())
        parts = [_text(_value(fields, name), name, place) for name in texts]
        made: dict[str, object] = {
            "_id": value,
            "title": "" if title is None else _text(_value(fields, title), title, place),
            "text": "\n".join(part for part in parts if part),
        }
        whole = fields.get(METADATA)
        named = {_field_name(name): _metadata(_value(fields, name)) for name in self.metadata}
        if kept := {**(whole if isinstance(whole, dict) else {}), **named}:
            made[METADATA] = kept
        names = (identity, *([title] if title is not None else []), *texts, *self.metadata)
        return made, {METADATA, *(name for name in names if _value(fields, name) is not None)}

    def kept(self, fields: Mapping[str, object]) -> Iterator[tuple[str, str, object]]:
        """Yields name, name on the wire, and value as it is written, of the metadata that is there and not empty."""
        for name in self.metadata:
            if value := _value(fields, name):
                yield name, _field_name(name), value


def table_documents(path: Path, fields: FieldNames, notes: ReadingNotes) -> Iterator[PlacedDocument]:
    """Yields a document a row. Wrong rows are faults of `notes`. Raises DatasetError for a file that is no table."""
    return named_documents(str(path), table_rows(path, notes), fields, notes, one_header=True)


def object_documents(path: Path, fields: FieldNames, notes: ReadingNotes) -> Iterator[PlacedDocument]:
    """Yields a document an object, of JSON lines or one list. Wrong ones are faults of `notes`. Raises DatasetError."""
    return named_documents(str(path), _objects(path, notes), fields, notes)


def named_documents(
    source: str,
    found: Iterator[PlacedDocument],
    fields: FieldNames,
    notes: ReadingNotes,
    *,
    one_header: bool = False,
) -> Iterator[PlacedDocument]:
    """Yields the documents that `fields` make of objects; an object without an id is a fault of `notes`.

    So is a name of `fields` that no object has. Fields that nothing is made of are left out there. With `one_header`
    all have the same fields, so that the first without an id raises DatasetError.
    """
    there: set[str] = set()
    taken: set[str] = set()
    for place, value in found:
        try:
            made, names = fields.document(value, place)
        except DatasetError as error:
            if one_header:
                raise
            notes.wrong(error)
            continue
        there |= value.keys()
        taken |= names
        yield place, made
    if not there:
        return
    for name in sorted(fields.given - taken):
        notes.wrong(f"{source}: no document has a field `{name}`; there are: {shown(', '.join(sorted(there)))}")
    for name in sorted(there - taken - {one.partition(".")[0] for one in taken}):
        notes.left_out("fields (--metadata keeps one for filters)", f"{name} of {source}")


def named_field(fields: Mapping[str, object] | Sequence[str], known: Sequence[str]) -> str | None:
    """Returns the field with the first of the known names. Case, and `_` for `-`, do not count."""
    there = {_plain(name): name for name in fields}
    return next((there[_plain(name)] for name in known if _plain(name) in there), None)


def table_rows(path: Path, notes: ReadingNotes) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields place and cells of each row of a CSV or TSV file, by the names of its first row.

    A `.csv` may be separated by commas, semicolons or tabs: the header shows which. Rows of another width are faults
    of `notes`. Raises DatasetError for a file that is no table.
    """
    lines = (f"{text}\n" for _, text in HashedLines(path).texts())
    first = next(lines, "")
    delimiter = "\t" if path.name.removesuffix(".gz").lower().endswith(".tsv") else max(",;\t", key=first.count)
    csv.field_size_limit(MOST_LINE_BYTES)
    reader = csv.reader(chain([first], lines), delimiter=delimiter, strict=True)
    header: list[str] | None = None
    end = 0  # the last line of the row before
    while True:
        place = f"{path}:{end + 1}"
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise DatasetError(f"{place}: the quotes of this row are not closed as CSV asks: {error}") from error
        end = reader.line_num
        if cells is None:
            break
        if not any(cell.strip() for cell in cells):
            continue
        if header is None:
            header = [cell.strip() for cell in cells]
            if len(set(header)) < len(header):
                raise DatasetError(f"{place}: the header has the same name twice: {shown(', '.join(header))}")
        elif len(cells) != len(header):
            notes.wrong(f"{place}: columns: {len(cells)}; the header has {len(header)}")
        else:
            yield place, dict(zip(header, cells, strict=True))
    if header is None:
        raise DatasetError(f"{path}:1: an empty file; the first line names the columns")


def _objects(path: Path, notes: ReadingNotes) -> Iterator[PlacedDocument]:
    if path.name.removesuffix(".gz").lower().endswith(".json"):
        text = HashedLines(path).text()
        if text.lstrip().startswith("["):
            yield from _items(path, text, notes)
            return
    for number, line in enumerate(HashedLines(path), start=1):
        if line.strip():
            place = f"{path}:{number}"
            try:
                value = json_object(line, place)
            except DatasetError as error:
                notes.wrong(error)
                continue
            yield place, value


def _items(path: Path, text: str, notes: ReadingNotes) -> Iterator[PlacedDocument]:
    """Yields the objects of a list, each with the line where it begins. Raises DatasetError for what is no JSON."""
    decoder = json.JSONDecoder()
    at, line = text.index("["), 1
    while True:
        before, at = at, _after_space(text, at + 1)
        line += text.count("\n", before, at)
        if text[at : at + 1] == "]":
            return
        place = f"{path}:{line}"
        try:
            value, following = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise DatasetError(f"{place}: not JSON: {error}") from error
        if isinstance(value, dict):
            yield place, value
        else:
            notes.wrong(f"{place}: not a JSON object")
        before, at = at, _after_space(text, following)
        line += text.count("\n", before, at)
        if text[at : at + 1] == "]":
            return
        if text[at : at + 1] != ",":
            raise DatasetError(f"{path}:{line}: not JSON: a comma or the end of the list is missing")


def _field_name(name: str) -> str:
    """Returns the name that the wire takes: letters, digits and `_`."""
    return re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_")


def _metadata(value: object) -> object:
    """Returns a value as metadata: the cell of a table that reads as a number is one, and an empty one is none."""
    if isinstance(value, str):
        text = value.strip()
        return json.loads(text) if _NUMBER.fullmatch(text) else text or None
    return value


def _plain(name: str) -> str:
    return name.strip().casefold().replace("_", "-")


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _value(fields: Mapping[str, object], name: str) -> object:
    """Returns the value of a field, None without it. A name with dots leads through objects."""
    if name in fields:
        return fields[name]
    value: object = fields
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _text(value: object, name: str, place: str) -> str:
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return "\n".join(value)
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise DatasetError(f"{place}: {name}: a text, or a list of texts, is needed")
