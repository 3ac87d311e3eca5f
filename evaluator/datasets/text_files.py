"""Finds and reads the files of a collection, plain or gzip, and hashes them while reading. Knows no format."""

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from evaluator.errors import DatasetError

# Far above what one document may have; a file without line breaks would otherwise be read into memory whole.
MOST_LINE_BYTES = 100_000_000
_BUFFER_BYTES = 1 << 20


def find_one(directory: Path, names: Sequence[str]) -> Path | None:
    """Returns the one file of these names, or of one of them with `.gz`; None without any. Two are a DatasetError."""
    try:
        there = [directory / found for name in names for found in (name, f"{name}.gz") if (directory / found).exists()]
    except OSError as error:  # a name that is too long, no permission
        raise DatasetError(f"{str(directory)[:200]}: {error.strerror}") from error
    if len(there) > 1:
        found = ", ".join(path.name for path in there)
        raise DatasetError(f"{directory}: {found}: which one is meant is not said; keep one of them")
    return there[0] if there else None


class HashedLines:
    """Iterates the lines of a file as bytes, unpacked where its name ends in `.gz`; `sha256` is the packed file's.

    Raises DatasetError for whatever cannot be opened, read or unpacked. Only a line feed ends a line.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._digest = hashlib.sha256()
        self._complete = False

    def __iter__(self) -> Iterator[bytes]:
        try:
            packed = self._path.suffix == ".gz"
            with (
                self._path.open("rb", buffering=0) as file,
                io.BufferedReader(_HashingReader(file, self._digest), _BUFFER_BYTES) as raw,
                gzip.open(raw) if packed else nullcontext(raw) as unpacked,
            ):
                number = 0
                while line := unpacked.readline(MOST_LINE_BYTES):
                    number += 1
                    if len(line) == MOST_LINE_BYTES:
                        raise DatasetError(f"{self._path}:{number}: a line of more than {MOST_LINE_BYTES:,} bytes")
                    yield line
        except FileNotFoundError as error:
            raise DatasetError(f"{self._path}: no such file") from error
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DatasetError(f"{self._path}: not a complete gzip file: {error}") from error
        except OSError as error:  # a directory, no permission, a failing disk
            raise DatasetError(f"{self._path}: {error.strerror}") from error
        self._complete = True

    @property
    def sha256(self) -> str:
        """The sha256 of the file as it lies on the disk. Asked for only after the last line was read."""
        if not self._complete:
            raise RuntimeError(f"{self._path} was not read to its end")
        return self._digest.hexdigest()


class _HashingReader(io.RawIOBase):
    def __init__(self, file: io.FileIO, digest: "hashlib._Hash") -> None:
        self._file = file
        self._digest = digest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._file.readinto(buffer) or 0
        self._digest.update(memoryview(buffer)[:count])
        return count


def decoded(line: bytes, place: str) -> str:
    """Decodes a line of UTF-8, without a byte order mark. Raises DatasetError."""
    try:
        return line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DatasetError(f"{place}: not UTF-8: {error}") from error


def sha256(path: Path) -> str:
    """Returns the sha256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
