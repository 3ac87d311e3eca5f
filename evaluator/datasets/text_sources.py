"""Reads documents from Markdown and plain text: a document a file, or a document a heading.

The id is the path below the folder, with the anchor of the heading: it stays when the content changes. A document of a
folder below has that folder as metadata.
"""

import html
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from evaluator.datasets.ids import slug
from evaluator.datasets.placed_documents import PlacedDocument, ReadingNotes
from evaluator.datasets.text_files import HashedLines
from evaluator.errors import DatasetError

if TYPE_CHECKING:  # imported where it is used: it takes 80 ms, and other commands need none of it
    from markdown_it.token import Token

MARKDOWN = (".md", ".markdown")
TEXTS = (*MARKDOWN, ".txt")

_FRONT_MATTER = re.compile(r"---[ \t]*\n([\w-]+[ \t]*:.*?\n)(?:---|\.\.\.)[ \t]*(?:\n|$)", re.DOTALL)
_FRONT_TITLE = re.compile(r"^title:[ \t]*(['\"]?)(.+?)\1[ \t]*$", re.MULTILINE)
_TAGS = re.compile(r"<!--.*?-->|<[^<>]*>", re.DOTALL)


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


def text_documents(source: Path, notes: ReadingNotes, *, by_heading: bool) -> Iterator[PlacedDocument]:
    """Yields the documents of a folder, in the order of paths, or of one file. Hidden files are not read.

    A file that cannot be read is a fault of `notes`; files of other kinds and empty documents are left out there.
    """
    found = False
    for path in _files(source):
        identity = path.relative_to(source).as_posix() if path != source else path.name
        if path.suffix.lower() not in TEXTS:
            notes.left_out("files that are neither Markdown nor text", identity)
            continue
        found = True
        folder = identity.rpartition("/")[0]
        try:
            for place, made in _documents(path, identity, notes, by_heading=by_heading):
                yield place, {**made, "metadata": {"folder": folder}} if folder else made
        except DatasetError as error:
            notes.wrong(error)
    if not found:
        notes.wrong(f"{source}: no file there ends with {', '.join(TEXTS)}; name files of other formats one by one")


def _files(source: Path) -> Iterator[Path]:
    if not source.is_dir():
        yield source
        return
    found = []
    for folder, folders, names in os.walk(source, onerror=_raise):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(folder, name) for name in names if not name.startswith(".")]
    yield from sorted(found)


def _raise(error: OSError) -> NoReturn:
    raise error


def _documents(path: Path, identity: str, notes: ReadingNotes, *, by_heading: bool) -> Iterator[PlacedDocument]:
    content = re.sub(r"\r\n?", "\n", HashedLines(path).text())
    if path.suffix.lower() not in MARKDOWN:
        title, sections = "", [TextSection(1, 0, "", [content])]
    else:
        title, sections = _markdown_sections(content)
    if by_heading:
        yield from _by_heading(path, identity, title, sections, notes)
        return
    if not title and (first := next((one for one in sections if one.heading), None)) is not None:
        title, first.heading = first.heading, ""
    text = "\n\n".join(part for one in sections for part in (one.heading, one.text) if part)
    if text or title:
        yield f"{path}:1", {"_id": identity, "title": title or path.stem, "text": text}
    else:
        notes.left_out("files without a text", identity)


def _by_heading(
    path: Path, identity: str, title: str, sections: list[TextSection], notes: ReadingNotes
) -> Iterator[PlacedDocument]:
    """Yields a document for each heading with a text of its own. Its title names the headings above it too."""
    used: set[str] = set()
    above: list[TextSection] = []
    for one, following in zip(sections, [*sections[1:], None], strict=True):
        place, anchor = f"{path}:{one.line}", identity
        if one.heading:
            anchor = f"{identity}#{slug(one.heading, used)}"
            above = [*(other for other in above if other.level < one.level), one]
        headings = [other.heading for other in above]
        trail = [title, *headings] if title and headings[:1] != [title] else headings
        if one.text:
            yield place, {"_id": anchor, "title": " > ".join(trail) or path.stem, "text": one.text}
        elif one.heading and (following is None or following.level <= one.level):
            notes.left_out("headings without a text", place)
    if not any(one.heading or one.text for one in sections):
        notes.left_out("files without a text", identity)


def _markdown_sections(content: str) -> tuple[str, list[TextSection]]:
    """Returns the title of the front matter, empty without one, and the sections of a text in Markdown."""
    from markdown_it import MarkdownIt

    front = _FRONT_MATTER.match(content)
    named = _FRONT_TITLE.search(front[1]) if front else None
    skipped = front.end() if front else 0
    line = content.count("\n", 0, skipped) + 1
    tokens = MarkdownIt("commonmark").enable("table").parse(content[skipped:])
    sections = [TextSection(line, 0, "")]
    cells: list[str] = []  # of a row of a table
    before: Token | None = None
    for token in tokens:
        opened = before.type if before else ""
        if before is not None and opened == "heading_open" and not before.level:
            if heading := " ".join(_plain(token).split()):
                sections.append(TextSection(line + (token.map or [0])[0], int(before.tag[1:]), heading))
        elif opened in ("td_open", "th_open"):
            cells.append(_plain(token))
        elif token.type == "tr_close":
            sections[-1].parts.append(" ".join(cells))
            cells.clear()
        elif token.type in ("inline", "fence", "code_block", "html_block"):
            sections[-1].parts.append(_plain(token))
        before = token
    return named[2] if named else "", sections


def _plain(token: "Token") -> str:
    """Returns the text of a token, without its marks and tags."""
    if token.type == "html_block":
        return html.unescape(_TAGS.sub(" ", token.content)).strip()
    if token.children is None:
        return token.content.rstrip("\n")
    return "".join(_inline(one) for one in token.children)


def _inline(token: "Token") -> str:
    if token.type in ("softbreak", "hardbreak"):
        return " " if token.type == "softbreak" else "\n"
    return token.content if token.type in ("text", "code_inline", "image") else ""
