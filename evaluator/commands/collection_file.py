"""Reads and writes the file of an exported collection: its declaration, a line per document, and their counts.

Sends nothing. The lines are JSON; a file may be packed (gzip) afterwards.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from operator import not_
from pathlib import Path
from typing import Annotated, Literal, Self, TextIO, TypeVar

from pydantic import Field, ValidationError

from evaluator.datasets.text_files import HashedLines
from evaluator.errors import DatasetError
from services.contracts.base import Count, Name, Wire
from services.contracts.collections import CollectionDeclaration
from services.contracts.content_digest import ContentDigest
from services.contracts.documents import DocumentWithVectors
from services.contracts.generations import Generation

Line = TypeVar("Line", bound=Wire)


class ExportHead(Wire):
    """The first line: what a restore declares, and where the documents are from.

    `stamps`: what made the vectors of the documents, by backend; without vectors there are none.
    """

    collection_export: Literal[1] = 1  # the layout of the file
    collection: Name
    generation: Generation
    declaration: CollectionDeclaration
    stamps: Annotated[dict[str, dict[str, str]], Field(exclude_if=not_)] = {}


class ExportEnd(Wire):
    """The last line. `digest` is the ContentDigest of the documents, as services compute it; `sha256` is that of the
    lines before."""

    documents: Count
    digest: str
    sha256: str


class ExportWriter:
    """Writes the lines of a file: the head at once, the documents as they come, the end by `end`."""

    def __init__(self, file: TextIO, head: ExportHead) -> None:
        self._file = file
        self._documents = 0
        self._digest = ContentDigest()
        self._sha256 = hashlib.sha256()
        self._write(head)

    def add(self, documents: tuple[DocumentWithVectors, ...]) -> None:
        """Writes documents, each of which the file has once."""
        for document in documents:
            self._write(document)
        self._documents += len(documents)
        self._digest.add((document.id, document.content_hash) for document in documents)

    def end(self) -> ExportEnd:
        """Writes the last line and returns it."""
        end = ExportEnd(documents=self._documents, digest=self._digest.hexdigest(), sha256=self._sha256.hexdigest())
        self._write(end)
        return end

    def _write(self, line: Wire) -> None:
        written = f"{line.model_dump_json()}\n"
        self._sha256.update(written.encode())
        self._file.write(written)


@dataclass(frozen=True, slots=True)
class ExportedCollection:
    """A file that is whole: it has been read to its end once."""

    path: Path
    head: ExportHead
    end: ExportEnd

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads and checks a file. Raises DatasetError for one that was cut short, was changed, or is another file."""
        lines = enumerate(HashedLines(path), start=1)
        _, first = next(lines, (1, b""))
        head = _parsed(ExportHead, first, f"{path}: this is no exported collection")
        sha256, digest, documents = hashlib.sha256(first), ContentDigest(), 0
        last = b""
        for number, line in lines:
            if last:
                document = _parsed(DocumentWithVectors, last, f"{path}:{number - 1}")
                sha256.update(last)
                digest.add([(document.id, document.content_hash)])
                documents += 1
            last = line
        end = _parsed(ExportEnd, last, f"{path}: it was cut short, so export the collection again; its last line")
        counted = ExportEnd(documents=documents, digest=digest.hexdigest(), sha256=sha256.hexdigest())
        if end != counted:
            raise DatasetError(
                f"{path}: it was changed: its lines give {counted.model_dump_json()}, and the last one has "
                f"{end.model_dump_json()}; export the collection again"
            )
        return cls(path, head, end)

    def documents(self) -> Iterator[DocumentWithVectors]:
        """Yields the documents in the order of the file."""
        lines = islice(HashedLines(self.path), 1, self.end.documents + 1)
        for number, line in enumerate(lines, start=2):
            yield _parsed(DocumentWithVectors, line, f"{self.path}:{number}")


def _parsed(model: type[Line], line: bytes, place: str) -> Line:
    # Unknown keys are refused: what a later release has exported would be lost.
    try:
        return model.model_validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f"{part}: " for part in first["loc"])
        raise DatasetError(f"{place}: {where}{first['msg']}") from error
