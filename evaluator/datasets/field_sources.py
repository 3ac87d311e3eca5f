"""Reads documents whose fields have names: rows of CSV and TSV, objects of JSON and JSON lines."""

import csv
import json
import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path

from evaluator.datasets.placed_documents import PlacedDocument, ReadingNotes
from evaluator.datasets.text_files import MOST_LINE_BYTES, HashedLines, json_object
from evaluator.errors import DatasetError, WrongOption
from evaluator.progress import shown

TABLES = (".csv", ".tsv")
OBJECTS = (".json", ".jsonl", ".ndjson")

# Names that a field has where none was given, the preferred one first.
IDS = ("_id", "id", "docno", "doc-id", "docid", "document-id", "corpus-id", "passage-id", "pid")
TITLES = ("title", "heading", "headline", "subject", "name")
TEXTS = ("text", "contents", "content", "body", "abstract", "passage", "document", "description")
UNUSED = "fields (--metadata keeps one for filters)"
METADATA = "metadata"  # an object of it is taken as it is

# The first rows of a table, which show its separator.
SAMPLE_LINES = 1_000
# Bounds how far a quote that nothing closes is followed.
MOST_CELL_LINES = 1_000

_SEPARATOR = re.compile(r'"?sep=([,;|\t])"?')
# What only MySQL writes: a cell `\N`, or a backslash before a quote that neither ends a cell nor is doubled.
_ESCAPED = re.compile(r'(?<![^,;\t])\\N(?![^,;\t])|(?<!\\)\\"(?![",;\t]|$)')
_TAB_CELL = re.compile(r'(?:\A|\t)(?:"([^"]*(?:""[^"]*)*)"(?![^\t])|([^\t]*))')
_OPEN_CELL = re.compile(r'(?:\A|\t)(?:"[^"]*(?:""[^"]*)*"(?![^\t])|("[^"]*(?:""[^"]*)*\Z)|[^\t]*)')


@dataclass(frozen=True, slots=True)
class FieldNames:
    """The fields that hold id, title and texts. Without a name, the first known one that a document has.

    `a.b` is the field `b` of the object `a`. Several texts are joined by line breaks.
    """

    id: str | None = None
    title: str | None = None
    texts: tuple[str, ...] = ()
    metadata: tuple[str, ...] = ()  # what filters and facets may use later

    def __post_init__(self) -> None:
        names = Counter(map(field_name, self.metadata))
        if twice := [name for name, count in names.items() if count > 1]:
            raise WrongOption(f"--metadata: two fields would have the name {twice[0]}; rename one of them")

    def document(self, fields: Mapping[str, object], place: str) -> tuple[dict[str, object], set[str]]:
        """Returns what corpus.jsonl would hold, and the names that it was made of. Raises DatasetError."""
        identity = self.id or named_field(fields, IDS)
        if identity is None or (value := _value(fields, identity)) is None:
            known = f"a field `{identity}`" if identity else f"one of the fields {', '.join(IDS)}"
            raise DatasetError(
                f"{place}: no id: expected {known}; there are: {shown(', '.join(fields))}; name one with --id"
            )
        title = self.title or named_field(fields, TITLES)
        known_text = named_field(fields, TEXTS)
        texts = self.texts or ((known_text,) if known_text is not None else ())
        parts = [_text(_value(fields, name), name, place) for name in texts]
        made: dict[str, object] = {
            "_id": value,
            "title": "" if title is None else _text(_value(fields, title), title, place),
            "text": "\n".join(part for part in parts if part),
        }
        whole = fields.get(METADATA)
        named = dict(self.kept(fields))
        if kept := {**(whole if isinstance(whole, dict) else {}), **named}:
            made[METADATA] = kept
        names = (identity, *([title] if title is not None else []), *texts, *self.metadata)
        taken = {name for name in names if _value(fields, name) is not None}
        return made, taken | ({METADATA} if isinstance(whole, dict) else set())

    def kept(self, fields: Mapping[str, object]) -> Iterator[tuple[str, object]]:
        """Yields name on the wire, and value as it is written, of the metadata that is there and not empty."""
        for name in self.metadata:
            value = _value(fields, name)
            if (value := value.strip() if isinstance(value, str) else value) not in (None, "", []):
                yield field_name(name), value


def named_documents(
    source: str,
    documents: Iterator[PlacedDocument],
    fields: FieldNames,
    notes: ReadingNotes,
    *,
    one_header: bool = False,
) -> Iterator[PlacedDocument]:
    """Yields the documents that `fields` make of objects; an object without an id is a fault of `notes`.

    So is a name of `fields` that no object has, unless it is one of metadata, which another source may have. Fields
    that nothing is made of are left out there. With `one_header` all have the same fields, so that the first without
    an id raises DatasetError.
    """
    present: set[str] = set()
    taken: set[str] = set()
    without_text = True
    for place, value in documents:
        try:
            made, names = fields.document(value, place)
        except DatasetError as error:
            if one_header:
                raise
            notes.wrong(error)
            continue
        present |= {name for name, field in value.items() if field not in ("", None)}
        taken |= names
        without_text = without_text and not made["text"]
        yield place, made
    if not present:
        return
    for name in sorted({name for name in (fields.id, fields.title, *fields.texts) if name} - taken):
        notes.wrong(f"{source}: no document has a field `{name}`; there are: {shown(', '.join(sorted(present)))}")
    for name in sorted(present - taken - {field.partition(".")[0] for field in taken}):
        notes.left_out(UNUSED, f"{name} of {source}")
    if without_text and present - taken:
        notes.left_out("sources of which no field is taken as text (--text names one)", source)


def named_field(fields: Mapping[str, object] | Sequence[str], known: Sequence[str]) -> str | None:
    """Returns the field with the first of the known names. Case, and `_` for `-`, do not count."""
    by_plain_name = {_plain(name): name for name in fields}
    return next((by_plain_name[_plain(name)] for name in known if _plain(name) in by_plain_name), None)


def table_rows(path: Path, notes: ReadingNotes) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields place and cells of each row of a CSV or TSV file, by the names of its first row.

    A `.csv` may be separated by commas, semicolons or tabs: its first rows show which, or Excel's line `sep=;`. A
    column without a name is `column 1`, by its place. Rows of another width are faults of `notes`, unless only empty
    cells are too many. Raises DatasetError for a file that is no table.
    """
    csv.field_size_limit(MOST_LINE_BYTES)
    lines = (text for _, text in HashedLines(path).texts())
    sample = list(islice(lines, SAMPLE_LINES))
    named = _SEPARATOR.fullmatch(sample[0]) if sample else None
    first = 2 if named else 1  # the line of the header
    every = chain(sample[first - 1 :], lines)
    tsv = path.name.removesuffix(".gz").lower().endswith(".tsv")
    separator = named[1] if named else "\t" if tsv else max(",;\t", key=partial(_fit, sample))
    if escaped := separator != "\t" and any(map(_ESCAPED.search, sample)):
        notes.left_out("files whose backslashes are read as MySQL writes them", str(path))
    rows = _tab_rows(every, first) if separator == "\t" else _quoted_rows(path, every, first, separator, escaped)
    header: list[str] = []
    for number, cells in rows:
        place = f"{path}:{number}"
        while len(cells) > len(header) > 0 and not cells[-1].strip():
            cells.pop()
        if not any(cell.strip() for cell in cells):
            continue
        if not header:
            header = [cell.strip() or f"column {at}" for at, cell in enumerate(cells, start=1)]
            if len(set(header)) < len(header):
                raise DatasetError(f"{place}: the header has the same name twice: {shown(', '.join(header))}")
        elif len(cells) != len(header):
            notes.wrong(f"{place}: columns: {len(cells)}; the header has {len(header)}")
        else:
            within = (line.split(separator) for cell in cells for line in cell.split("\n")[1:])
            if any(len(parts) == len(header) > 1 == len(parts[0].split()) for parts in within):
                notes.left_out("rows that may stand within a cell, because a quote is not closed", place)
            yield place, dict(zip(header, cells, strict=True))
    if not header:
        raise DatasetError(f"{path}:1: an empty file; the first line names the columns")


def _fit(sample: Sequence[str], separator: str) -> tuple[bool, float, int, int]:
    """Returns how well a separator fits: by the best, most rows are as wide as the header, quotes enclose cells, and
    the header is widest."""
    rows = [row for row in csv.reader(sample, delimiter=separator) if row] or [[]]
    width, widths = len(rows[0]), [len(row) for row in rows]
    return width > 1, widths.count(width) / len(rows), -sum(cell.count('"') for row in rows for cell in row), width


def _quoted_rows(
    path: Path, lines: Iterator[str], first: int, separator: str, escaped: bool
) -> Iterator[tuple[int, list[str]]]:
    """Yields the line where a row begins, and its cells, as RFC 4180 encloses them. Raises DatasetError.

    With `escaped`, as MySQL writes them: `\\N` is no value, and a backslash stands before a quote or a line break.
    """
    null = re.compile(rf"(?<![^{separator}])\\N(?![^{separator}])")
    texts = (f"{null.sub('', line) if escaped else line}\n" for line in lines)
    reader = csv.reader(texts, delimiter=separator, strict=True, escapechar="\\" if escaped else None)
    number = first
    try:
        for cells in reader:
            yield number, cells
            number = first + reader.line_num
    except csv.Error as error:
        raise DatasetError(f"{path}:{number}: the quotes of this row are not closed as CSV asks: {error}") from error


def _tab_rows(lines: Iterator[str], number: int) -> Iterator[tuple[int, list[str]]]:
    """Yields the line where a row begins, `number` for the first, and its cells.

    A quote is text, unless quotes enclose the whole cell. Such a cell may span lines, as spreadsheets write it, but
    none that has the tabs of a row itself.
    """
    ahead: deque[str] = deque()
    tabs = -1  # of the header; none is known yet
    while ahead or (ahead := deque(islice(lines, 1))):
        line, taken = ahead.popleft(), 0
        cells_of_row = _TAB_CELL.findall(line)
        if _may_go_on(line, tabs):
            ahead.extend(islice(lines, MOST_CELL_LINES - len(ahead)))
            for count, following in enumerate(ahead, start=1):
                # The end of a row's first cell stands in a line with all tabs.
                first = tabs and not taken and "\t" not in line and '"' in following.partition("\t")[0]
                if following.count("\t") >= tabs and not first:
                    break
                if '"' not in following.replace('""', ""):
                    continue
                joined = "\n".join((line, *islice(ahead, count)))
                whole = _TAB_CELL.findall(joined)
                if any("\n" in loose for _, loose in whole):
                    break
                if len(whole) == tabs + 1:
                    cells_of_row, taken = whole, count
                if not _may_go_on(joined, tabs):
                    break
        cells = [enclosed.replace('""', '"') or loose for enclosed, loose in cells_of_row]
        if tabs < 0 and line.strip():
            tabs = len(cells) - 1
        yield number, cells if len(cells) == tabs + 1 else line.split("\t")
        for _ in range(taken):
            ahead.popleft()
        number += 1 + taken


def _may_go_on(text: str, tabs: int) -> bool:
    """Returns whether later quotes may close a cell of the row: one is open at the end, and within the header's."""
    return '"' in text and any(_OPEN_CELL.findall(text)[: tabs + 1])


def json_rows(path: Path, notes: ReadingNotes) -> Iterator[PlacedDocument]:
    """Yields place and object of JSON lines, or of a list. Others are faults of `notes`. Raises DatasetError."""
    if path.name.removesuffix(".gz").lower().endswith(".json"):
        text = HashedLines(path).text()
        if text.lstrip().startswith("["):
            try:
                items = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise DatasetError(f"{path}: not JSON: {error}") from error
            for number, item in enumerate(items, start=1):
                if isinstance(item, dict):
                    yield f"{path}, object {number}", item
                else:
                    notes.wrong(f"{path}, object {number}: not a JSON object")
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


def field_name(name: str) -> str:
    """Returns the name that the wire takes: letters, digits and `_`; of a name in another script, its code points."""
    plain = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") or "_".join(f"u{ord(character):x}" for character in name)
    return f"{'_' if plain[:1].isdigit() else ''}{plain}"[:64]


def _plain(name: str) -> str:
    return name.strip().casefold().replace("_", "-")


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
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return "\n".join(value)
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise DatasetError(f"{place}: {name}: a text, or a list of texts, is needed")
