"""Finds and reads text files of users, plain or gzip, and hashes them while reading; finds columns by their names."""

import gzip
import hashlib
import io
import json
import re
import zlib
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from evaluator.datasets.ids import plain_id
from evaluator.errors import DatasetError
from services.files.regular_file import open_regular
from services.files.text_encoding import GZIP, NotUtf8, text_of, without_mark

# Far above what one document may have; a file without line breaks would otherwise be read into memory whole.
MOST_LINE_BYTES = 100_000_000
_BUFFER_BYTES = 1 << 20


def find_one(directory: Path, names: Sequence[str]) -> Path | None:
    """Returns the one file of these names, or of one of them with `.gz`; None without any. Two are a DatasetError."""
    try:
        every = (directory / written for name in names for written in (name, f"{name}.gz"))
        paths = [path for path in every if path.exists()]
    except OSError as error:  # a name that is too long, no permission
        raise DatasetError(f"{str(directory)[:200]}: {error.strerror}") from error
    if len(paths) > 1:
        listed = ", ".join(path.name for path in paths)
        raise DatasetError(f"{directory}: {listed}: only one of these files is read; keep one of them")
    return paths[0] if paths else None


class HashedLines:
    """Iterates the lines of a file as bytes, without a byte order mark; `sha256` is that of the file on the disk.

    What its content or its name `*.gz` shows to be packed is unpacked. Raises DatasetError for whatever cannot be
    opened, read or unpacked, and for UTF-16. Only a line feed ends a line.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._digest = hashlib.sha256()

    def __iter__(self) -> Iterator[bytes]:
        named_gz = self._path.suffix == ".gz"
        try:
            with (
                open_regular(self._path) as file,
                io.BufferedReader(_HashingReader(file, self._digest), _BUFFER_BYTES) as raw,
                gzip.open(raw) if named_gz or raw.peek(len(GZIP)).startswith(GZIP) else nullcontext(raw) as unpacked,
            ):
                number = 0
                while line := unpacked.readline(MOST_LINE_BYTES):
                    number += 1
                    if len(line) == MOST_LINE_BYTES:
                        raise DatasetError(f"{self._path}:{number}: a line of more than {MOST_LINE_BYTES:,} bytes")
                    yield line if number > 1 else without_mark(line)
        except FileNotFoundError as error:
            raise DatasetError(f"{self._path}: no such file") from error
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DatasetError(f"{self._path}: not a complete gzip file: {error}") from error
        except NotUtf8 as error:
            raise DatasetError(f"{self._path}: {error}") from error
        except OSError as error:  # a directory, no permission, a failing disk
            raise DatasetError(f"{self._path}: {error.strerror}") from error

    def texts(self) -> Iterator[tuple[int, str]]:
        """Yields number and text of each line, without its end; a carriage return alone ends one too."""
        number = 0
        for line in self:
            # Old files end their lines with a carriage return alone.
            for part in line.removesuffix(b"\n").removesuffix(b"\r").split(b"\r"):
                number += 1
                yield number, decoded(part, f"{self._path}:{number}")

    def text(self) -> str:
        """Returns the whole file as text."""
        try:
            return text_of(b"".join(self))
        except NotUtf8 as error:
            raise DatasetError(f"{self._path}: {error}") from error

    @property
    def sha256(self) -> str:
        """The sha256 of the file as it lies on the disk. Asked for only after the last line was read."""
        return self._digest.hexdigest()


class _HashingReader(io.RawIOBase):
    def __init__(self, file: io.BufferedReader, digest: "hashlib._Hash") -> None:
        self._file = file
        self._digest = digest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._file.readinto(buffer) or 0
        self._digest.update(memoryview(buffer)[:count])
        return count


def named_columns(cells: Sequence[str], known: Mapping[str, Sequence[str]]) -> dict[str, int] | None:
    """Returns the position of each column of `known` in a header; None where one of them is not named.

    `known`: the names of a column, the preferred one first. Case, quotes and `_` for `-` do not count.
    """
    names = [plain_id(cell).casefold().replace("_", "-") for cell in cells]
    columns = {
        column: names.index(name)
        for column, accepted in known.items()
        for name in reversed(accepted)
        if names.count(name) == 1
    }
    return columns if len(columns) == len(known) else None


def known_columns(known: Mapping[str, Sequence[str]]) -> str:
    """Returns the names that a header may have, for a message."""
    return "; ".join(f"{column}: {', '.join(names)}" for column, names in known.items())


def separators_hint(cells: Sequence[str]) -> str:
    """Returns the end of a message about a line whose cells hold the separators of other formats."""
    others = re.search("[,;]", "".join(cells))
    return "; columns are separated by tabs or white space, not by commas or semicolons" if others else ""


def decoded(line: bytes, place: str) -> str:
    """Decodes a line of UTF-8, without a byte order mark. Raises DatasetError."""
    try:
        return line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DatasetError(f"{place}: not UTF-8: {error}") from error


def sha256(path: Path, most: int | None = None) -> str:
    """Returns the sha256 of a file's content, of `most` bytes at most. Raises OSError."""
    with open_regular(path, most) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def json_objects(
    path: Path, lines: HashedLines, positions: Container[int] | None = None
) -> Iterator[tuple[str, dict[str, object], int]]:
    """Yields place, value and bytes of each line that is not blank, or of those at `positions`. Raises DatasetError."""
    position = -1
    # Only \n ends a line of JSON; str.splitlines would also split at U+2028.
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        position += 1
        if positions is not None and position not in positions:
            continue
        place = f"{path}:{number}"
        yield place, json_object(line, place), len(line)


def json_object(line: bytes, place: str) -> dict[str, object]:
    """Returns the object of a line. Raises DatasetError for every other line."""
    try:
        value = json.loads(decoded(line, place))
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{place}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise DatasetError(f"{place}: not a JSON object")
    return value
