"""The files of an Edge directory: one folder a generation, small JSON files that are replaced in one step, one lock."""

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, TextIO

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from services.chassis.errors import Unavailable
from services.contracts.base import Name
from services.contracts.collections import CollectionDeclaration
from services.contracts.generations import Generation

# Bumped when the layout of the folder or of the payload changes; another number is not opened.
LAYOUT = 1
RECORD = "collection.json"
PUBLISHED = "published.json"
_POINTERS = TypeAdapter(dict[Name, Generation])


class Record(BaseModel):
    """A generation's collection.json. `shard` names the folder beside it that is current; `finished` that it is indexed
    as far as it gets and unchanged since, with so many `documents` (None: not counted then). Defaults are those of
    records that were written before the fields were there. `representation` says what its vectors are where `dimension`
    alone does not: it is the engine's."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    layout: int = LAYOUT
    generation: Generation
    dimension: int = 1
    representation: dict[str, str | int] | None = None
    stamp: dict[str, str]
    declaration: CollectionDeclaration
    shard: Annotated[str, Field(pattern=r"^shard(-[1-9][0-9]*)?$")] = "shard"
    finished: bool = False
    documents: int | None = None
    build: str | None = None
    published_at: float | None = None  # Unix seconds


def replace(path: Path, text: str) -> None:
    """Writes a file so that after a crash either the old or the new text is there, whole."""
    beside = path.with_name(f".{path.name}.new")
    with beside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync(path.parent)


def holds(path: Path, text: str) -> bool:
    """Whether a file has this text: a `replace` that failed at its last step, the sync, has done all the others."""
    try:
        return path.read_text(encoding="utf-8") == text
    except OSError:
        return False


def sync(folder: Path) -> None:
    """Makes renames within a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_pointers(directory: Path) -> dict[str, str]:
    """The published generation of each name. Raises ValueError when the file is damaged."""
    path = directory / PUBLISHED
    return dict(_POINTERS.validate_json(path.read_bytes())) if path.exists() else {}


def write_pointers(directory: Path, pointers: Mapping[str, str]) -> None:
    """Replaces them all in one step."""
    replace(directory / PUBLISHED, _POINTERS.dump_json(dict(pointers), indent=1).decode())


def locked(directory: Path) -> TextIO:
    """Takes the directory for this process, until the file is closed or the process ends. Raises Unavailable."""
    directory.mkdir(parents=True, exist_ok=True)
    file = (directory / ".lock").open("w", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise Unavailable(
            f"The directory {directory} is in use by another process; stop that one or name another directory."
        ) from error
    return file
