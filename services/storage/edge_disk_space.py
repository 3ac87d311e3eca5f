"""Room on the disk. Edge writes to mapped files, where a full disk is no error but SIGBUS, the end of the process."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from services.chassis.errors import InsufficientStorage

MB = 1_000_000
# Edge writes a little to open a shard: its configuration, and what only the write-ahead log has.
RESERVE = ".reserve"
RESERVE_BYTES = 32 * MB


class Room:
    """The disk that a directory is on, and how much of it must stay free."""

    def __init__(self, directory: Path, least_free_mb: int) -> None:
        self._directory = directory
        self._least = least_free_mb * MB

    @contextlib.contextmanager
    def reserved_for_opening(self) -> Iterator[None]:
        """Gives the reserve free when there is too little room, so that what is held can be opened and read even on a
        full disk; makes a new one afterwards, if there is room for it."""
        reserve = self._directory / RESERVE
        if self.shortage() is not None:
            reserve.unlink(missing_ok=True)
        yield
        if not reserve.exists() and self.shortage(RESERVE_BYTES) is None:
            with reserve.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, RESERVE_BYTES)

    def require(self, more_bytes: int = 0) -> None:
        """Raises InsufficientStorage when there would be too little left after writing so much."""
        shortage = self.shortage(more_bytes)
        if shortage is not None:
            raise InsufficientStorage(f"Nothing can be written: {shortage} Free some of it; searches go on.")

    def shortage(self, more_bytes: int = 0) -> str | None:
        """What is wrong with the room that is left, or None. Never raises."""
        try:
            disk = os.statvfs(self._directory)
        except OSError as error:
            return f"{self._directory} cannot be looked at ({error.strerror})."
        free = disk.f_bavail * disk.f_frsize
        if free >= self._least + more_bytes:
            return None
        need = f"{self._least // MB} MB must stay free (LEAST_FREE_MB)"
        if more_bytes:
            need = f"this needs {more_bytes // MB + 1} MB and {need}"
        return f"{free // MB} MB are free in {self._directory}, {need}."


def taken(folder: Path) -> int:
    """Bytes that a folder takes on the disk, holes not counted."""
    return sum((Path(at) / name).lstat().st_blocks * 512 for at, _, names in os.walk(folder) for name in names)
