"""Owns the files and folders of an Edge directory: records, published.json, folders of generations, and a lock.

Files are replaced atomically. A folder without our record, or marker while it is created, is left alone.
"""

import fcntl
import json
import logging
import os
import re
import shutil
import uuid
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from services.chassis.errors import Conflict, Unavailable
from services.contracts.base import Name
from services.contracts.collections import CollectionDeclaration
from services.contracts.generations import Generation, is_generation
from services.files.disk_writes import sync_folder
from services.files.regular_file import open_lock, read_regular

# Incremented when the layout of the folder or of the payload changes; other layouts are not opened.
LAYOUT = 1
RECORD = "collection.json"
PUBLISHED = "published.json"
_POINTERS = TypeAdapter(dict[Name, Generation])


class GenerationRecord(BaseModel):
    """A generation's collection.json. `shard` names the current folder beside it. `finished`: fully indexed and
    unchanged since, with this many `documents` (None: not counted). `representation` is left out without vectors.
    Fields of later releases are ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    layout: int = LAYOUT
    generation: Generation
    representation: dict[str, str | int] | None = Field(None, exclude_if=lambda kept: kept is None)
    stamp: dict[str, str]
    declaration: CollectionDeclaration
    shard: Annotated[str, Field(pattern=r"^shard(-[1-9][0-9]*)?$")] = "shard"
    finished: bool = False
    documents: int | None = None
    build: str | None = None
    owner: str | None = Field(None, exclude_if=lambda kept: kept is None)  # left out as `representation` is
    published_at: float | None = None  # Unix seconds
    publication: int | None = Field(None, exclude_if=lambda kept: kept is None)

    @classmethod
    def from_disk(cls, content: bytes) -> Self:
        """Parses a record of this layout, also one that a later release wrote. Raises ValidationError, a ValueError."""
        return cls.model_validate_json(content, extra="ignore")


def replace_file(path: Path, text: str) -> None:
    """Replaces a file atomically: after a crash it has either the old or the new text."""
    beside = path.with_name(f".{path.name}.new")
    with beside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync_folder(path.parent)


def has_text(path: Path, text: str) -> bool:
    """Returns whether a file has this text: a `replace_file` that failed at its last step, the sync, did write it."""
    try:
        return read_regular(path) == text.encode()
    except OSError:
        return False


def read_pointers(directory: Path) -> dict[str, str]:
    """Reads the published generation of each collection. Raises ValueError if the file is damaged."""
    path = directory / PUBLISHED
    # A link that leads nowhere is damage, too.
    return dict(_POINTERS.validate_json(read_regular(path))) if os.path.lexists(path) else {}


def write_pointers(directory: Path, pointers: Mapping[str, str]) -> None:
    """Replaces published.json atomically."""
    replace_file(directory / PUBLISHED, json.dumps(pointers, indent=1, ensure_ascii=False))


def lock_directory(directory: Path) -> FileIO:
    """Locks the directory until the returned file is closed or the process ends. Raises Unavailable if it is in use."""
    directory.mkdir(parents=True, exist_ok=True)
    file = open_lock(directory / ".lock")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise Unavailable(
            f"The directory {directory} is in use by another process; stop that one or name another directory."
        ) from error
    return file


logger = logging.getLogger(__name__)

# A file in a folder that is being created, until its record is written.
MARKER = ".unfinished"
_GONE = re.compile(r"\.gone-[0-9a-f]{32}")


def own_folders(directory: Path) -> list[Path]:
    """Returns the folders of generations, by name. Removes leftovers of interrupted creations and removals."""
    folders: list[Path] = []
    for folder in sorted(directory.iterdir()):
        if folder.is_symlink() or not folder.is_dir():
            continue
        if is_generation(folder.name) and (folder / RECORD).exists():
            folders.append(folder)
        elif (is_generation(folder.name) and _is_marked(folder)) or _is_left_over(folder):
            remove(folder)
    return folders


def claim_folder(folder: Path) -> None:
    """Creates a folder with the marker. Raises Conflict if a foreign file or folder has the name."""
    if folder.is_dir() and _is_marked(folder):
        remove(folder)  # left by a failed creation
    # A file, a pipe or a link; also a link to an empty folder, which own_folders would skip at the next start.
    foreign = folder.is_symlink() or (folder.exists() and not folder.is_dir())
    if not foreign:
        folder.mkdir(exist_ok=True)
    if foreign or any(folder.iterdir()):
        raise Conflict(
            f"{folder} is in the way: it does not carry a {RECORD} of this service, which leaves it alone. Move it."
        )
    (folder / MARKER).touch()
    sync_folder(folder.parent)


def confirm_claim(folder: Path) -> None:
    """Removes the marker from a folder that has its record."""
    (folder / MARKER).unlink()
    sync_folder(folder)


def move_aside(folder: Path) -> Path:
    """Renames a folder, atomically, to a name that the next start removes. Returns the new path."""
    gone = folder.rename(folder.with_name(f".gone-{uuid.uuid4().hex}"))
    try:
        sync_folder(gone.parent)
    except OSError:  # the rename succeeded; only a power cut could undo it
        logger.warning("removal not yet on the disk", extra={"folder": folder.name}, exc_info=True)
    return gone


def remove(folder: Path) -> None:
    """Deletes a folder of ours, its record or marker last, so that the next start removes any rest. Never raises."""
    last = MARKER if _is_marked(folder) else RECORD
    try:
        (folder / (RECORD if last == MARKER else MARKER)).unlink(missing_ok=True)
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry.name != last:
                entry.unlink()
        (folder / last).unlink(missing_ok=True)
        folder.rmdir()
    except OSError:
        logger.warning("left behind until the next start", extra={"folder": folder.name}, exc_info=True)


def _is_marked(folder: Path) -> bool:
    return (folder / MARKER).exists()


def _is_left_over(folder: Path) -> bool:
    """Returns whether a folder is the rest of an interrupted removal, which deletes the record next to last."""
    if not _GONE.fullmatch(folder.name):
        return False
    return (folder / RECORD).exists() or _is_marked(folder) or not any(folder.iterdir())
