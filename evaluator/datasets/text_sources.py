"""Reads documents from Markdown and plain text: one document per file, or per heading.

The id is the path below the folder, with the anchor of the heading: it stays when the content changes. A document of a
folder below has that folder as metadata, and the keys of its front matter that the user names.
"""

import json
import os
import sys
import tomllib
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import unquote

from evaluator.datasets.corpus import MOST_DOCUMENT_BYTES
from evaluator.datasets.field_sources import TITLES, UNUSED, FieldNames, named_field
from evaluator.datasets.ids import slug
from evaluator.datasets.placed_documents import PlacedDocument, ReadingNotes
from evaluator.datasets.text_files import HashedLines
from evaluator.errors import DatasetError
from services.chassis.settings.strict_yaml import StringsLoader, parse_yaml

MARKDOWN = (".md", ".markdown")
TEXTS = (*MARKDOWN, ".txt")

_FRONT_ENDS = {"---": ("---", "..."), "+++": ("+++",)}  # of front matter in YAML, in TOML, by its first line
_GAPS = {"br": "\n", "img": " ", "td": " ", "th": " "}


@dataclass(slots=True)
class TextSection:
    """A heading (none at the start of a file) and the paragraphs below it, without marks of Markdown."""

    line: int
    level: int  # of the heading: 1 to 6; 0 without one
    heading: str
    parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The paragraphs, with an empty line between them."""
        return "\n\n".join(self.parts).strip()


def text_documents(
    source: Path, fields: FieldNames, notes: ReadingNotes, *, by_heading: bool
) -> Iterator[PlacedDocument]:
    """Yields the documents of a folder, in the order of paths, or of one file. Hidden files are not read.

    A file that cannot be read is a fault of `notes`; files of other kinds, empty documents, and keys of front matter
    that are not named are left out there.
    """
    any_text = False
    keys: set[str] = set()
    for path in _files(source):
        name = path.relative_to(source).as_posix() if path != source else path.name
        identity = unicodedata.normalize("NFC", name)  # macOS stores the accents of names apart
        if path.suffix.lower() not in TEXTS:
            notes.left_out("files that are neither Markdown nor text", identity)
            continue
        any_text = True
        folder = identity.rpartition("/")[0]
        try:
            front, title, sections = _read(path, notes)
        except DatasetError as error:
            notes.wrong(error)
            continue
        metadata: dict[str, object] = {"folder": folder} if folder else {}
        for wire, value in fields.kept(front):
            metadata[wire] = value if _is_plain(value) else {}  # which is dropped, and counted
        keys |= front.keys()
        for place, made in _documents(path, identity, title, sections, notes, by_heading=by_heading):
            yield place, {**made, "metadata": metadata}
    for name in sorted(keys - {*fields.metadata} - {key.partition(".")[0] for key in fields.metadata}):
        notes.left_out(UNUSED, f"{name} of {source}")
    if not any_text:
        notes.wrong(f"{source}: no file there ends with {', '.join(TEXTS)}; name files of other formats one by one")


def _files(source: Path) -> Iterator[Path]:
    if not source.is_dir():
        yield source
        return
    paths = []
    for folder, folders, names in os.walk(source, onerror=_raise):
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths += [Path(folder, name) for name in names if not name.startswith(".")]
    yield from sorted(paths)


def _raise(error: OSError) -> NoReturn:
    raise error


def _is_plain(value: object) -> bool:
    """Returns whether a value of front matter is a text, or texts, and fits: aliases may repeat a long one often."""
    texts = value if isinstance(value, list) else [value]
    return all(isinstance(text, str) for text in texts) and sum(map(len, texts)) <= MOST_DOCUMENT_BYTES


def _documents(
    path: Path, identity: str, title: str, sections: list[TextSection], notes: ReadingNotes, *, by_heading: bool
) -> Iterator[PlacedDocument]:
    if by_heading:
        yield from _by_heading(path, identity, title, sections, notes)
        return
    if not title and (first := next((section for section in sections if section.heading), None)) is not None:
        title, first.heading = first.heading, ""
    text = "\n\n".join(part for section in sections for part in (section.heading, section.text) if part)
    if text or title:
        yield f"{path}:1", {"_id": identity, "title": title or Path(identity).stem, "text": text}
    else:
        notes.left_out("files without a text", identity)


def _by_heading(
    path: Path, identity: str, title: str, sections: list[TextSection], notes: ReadingNotes
) -> Iterator[PlacedDocument]:
    """Yields a document for each heading with a text of its own. Its title names the headings above it too."""
    used: set[str] = set()
    above: list[TextSection] = []
    for section, following in zip(sections, [*sections[1:], None], strict=True):
        place, anchor = f"{path}:{section.line}", identity
        if section.heading:
            anchor = f"{identity}#{slug(section.heading, used)}"
            above = [*(upper for upper in above if upper.level < section.level), section]
        headings = [upper.heading for upper in above]
        trail = [title, *headings] if title and headings[:1] != [title] else headings
        if section.text:
            yield place, {"_id": anchor, "title": " > ".join(trail) or Path(identity).stem, "text": section.text}
        elif section.heading and (following is None or following.level <= section.level):
            notes.left_out("headings without a text", place)
    if not any(section.heading or section.text for section in sections):
        notes.left_out("files without a text", identity)


def _read(path: Path, notes: ReadingNotes) -> tuple[dict[str, object], str, list[TextSection]]:
    """Returns front matter without its title, the title, empty without one, and the sections. Raises DatasetError.

    Front matter that its language does not read is reported, and stands in the text as it is.
    """
    content = HashedLines(path).text().replace("\r\n", "\n").replace("\r", "\n")
    if path.suffix.lower() not in MARKDOWN:
        return {}, "", [TextSection(1, 0, "", [content])]
    lines = content.split("\n")
    ends = _FRONT_ENDS.get(lines[0].rstrip(), ())
    end = next((at for at, line in enumerate(lines) if at and line.rstrip() in ends), 0)
    block = "\n".join(["", *lines[1:end]])  # its errors name the line of the file
    front, first = None, TextSection(end + 1, 0, "")
    try:
        if end and lines[0].startswith("+"):  # every JSON is YAML
            block = json.dumps(tomllib.loads(block), default=lambda moment: moment.isoformat(), ensure_ascii=False)
        front = parse_yaml(block, StringsLoader) if end else None
    except (ValueError, RecursionError) as error:
        notes.left_out("metadata of front matter that cannot be read, so it is text", f"{path}:1: {error}")
        first.parts.append(block)
    if isinstance(front, str | list):  # what stands between two thematic breaks
        front, end = None, 0
    front = front or {}
    name = named_field(front, TITLES[:1])
    title = str(front.pop(name)) if name is not None and isinstance(front[name], str) else ""
    try:
        sections = _markdown_sections("\n".join(lines[end + 1 if end else 0 :]), first)
    except RecursionError as error:
        raise DatasetError(f"{path}: its lists or quotes are nested too deeply") from error
    return front, " ".join(title.split()), sections


def _markdown_sections(content: str, first: TextSection) -> list[TextSection]:
    """Returns `first`, which takes what stands before the first heading, and the sections of a text in Markdown."""
    from markdown_it import MarkdownIt  # it takes 80 ms, and other commands need none of it

    # What is nested deeper than `maxNesting`, 20 otherwise, the parser leaves out: of a list half as many levels.
    parser = MarkdownIt("commonmark", {"maxNesting": sys.maxsize}).enable(["table", "strikethrough"])
    sections, line, html = [first], 0, _PlainText(first.parts)
    links: dict[str, Any] = {}
    for token in parser.parse(content, links):
        line = token.map[0] if token.map else line
        # A heading of a quote or a list begins no section.
        if token.type == "heading_close" and not token.level and (heading := html.heading()):
            sections.append(TextSection(first.line + line, int(token.tag[1:]), heading))
            html.parts = sections[-1].parts
        html.feed(parser.renderer.render([token], parser.options, {}))
        html.close()  # what HTML leaves open takes no other text with it
    html.handle_endtag("p")
    for label, note in links.get("references", {}).items():
        if label.startswith("^"):  # `[^1]: Ibid.`, a footnote that reads as a link
            html.parts.append(unquote(f"{note['href']} {note['title']}").strip())
    return sections


class _PlainText(HTMLParser):
    """Collects the paragraphs of rendered Markdown; HTML that stands in it is read alike."""

    def __init__(self, parts: list[str]) -> None:
        from markdown_it.common.html_blocks import block_names

        super().__init__()
        self.parts = parts
        self._ending = {*block_names, "pre"} - _GAPS.keys()  # tags that end a paragraph; others stand within a word
        self._text = ""
        self._as_it_is = False

    def heading(self) -> str:
        """Takes what was read last, in one line."""
        heading, self._text = " ".join(self._text.split()), ""
        return heading

    def set_cdata_mode(self, elem: str, **_: object) -> None:
        """Hides nothing: a sentence may name the tag <script>, and nothing ends it."""

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.handle_endtag(tag)
        self._text += (dict(attrs).get("alt") or "") if tag == "img" else ""
        self._as_it_is = tag == "pre" or self._as_it_is

    def handle_endtag(self, tag: str) -> None:
        self._text += _GAPS.get(tag, "")
        if tag not in self._ending:
            return
        lines = self._text.rstrip("\n").split("\n")
        if not self._as_it_is:
            lines = [plain for line in lines if (plain := " ".join(line.split()))]
        if part := (" " if tag == "tr" else "\n").join(lines):
            self.parts.append(part)
        self._text, self._as_it_is = "", self._as_it_is and tag != "pre"

    def handle_data(self, data: str) -> None:
        self._text += data if self._as_it_is else data.replace("\n", " ")
