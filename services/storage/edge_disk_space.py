"""Checks free disk space. Edge writes to mapped files, where a full disk is no error but ends the process (SIGBUS)."""

import asyncio
import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge

from services.chassis.errors import InsufficientStorage

MB = 1_000_000
# To open a shard, Edge writes a little: its configuration, and entries of the write-ahead log.
RESERVE = ".reserve"
RESERVE_BYTES = 32 * MB
# Every gateway asks for the state of all generations each second; counting one takes some 60 calls of the system.
COUNTED_S = 10.0
LOG = "wal"  # Edge's folder


class DiskSpace:
    """The disk of a directory, and how much of it must stay free."""

    def __init__(self, directory: Path, least_free_mb: int) -> None:
        self._directory = directory
        self._least = least_free_mb * MB

    def show(self, registry: CollectorRegistry) -> None:
        """Adds gauges of the free bytes, and of those that must stay free, to the metrics of a process."""
        free = Gauge("data_disk_free_bytes", "Bytes free on the disk of the data directory", registry=registry)
        free.set_function(self.free_bytes)
        least = Gauge("data_disk_least_free_bytes", "Bytes free below which writes are refused", registry=registry)
        least.set(self._least)

    def free_bytes(self) -> int:
        """Returns the free bytes. Raises OSError if the directory cannot be read."""
        disk = os.statvfs(self._directory)
        return disk.f_bavail * disk.f_frsize

    @contextlib.contextmanager
    def reserve_for_opening(self) -> Iterator[None]:
        """Deletes the reserve file if too little is free, so that shards can be opened and read even on a full disk.
        Creates it again after the block if there is enough space."""
        reserve = self._directory / RESERVE
        if self.shortage() is not None:
            reserve.unlink(missing_ok=True)
        yield
        if not reserve.exists() and self.shortage(RESERVE_BYTES) is None:
            with reserve.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, RESERVE_BYTES)

    def require(self, more_bytes: int = 0) -> None:
        """Raises InsufficientStorage if too little would be free after writing `more_bytes`."""
        shortage = self.shortage(more_bytes)
        if shortage is not None:
            raise InsufficientStorage(f"Nothing can be written: {shortage} Free some of it; searches go on.")

    def shortage(self, more_bytes: int = 0) -> str | None:
        """Returns why there is too little space for `more_bytes`, or None. Never raises."""
        try:
            free = self.free_bytes()
        except OSError as error:
            return f"{self._directory} cannot be read ({error.strerror})."
        if free >= self._least + more_bytes:
            return None
        need = f"{self._least // MB} MB must stay free (LEAST_FREE_MB)"
        if more_bytes:
            need = f"this needs {more_bytes // MB + 1} MB and {need}"
        return f"{free // MB} MB are free in {self._directory}, {need}."


class DiskSize:
    """The bytes that the index in a folder takes on the disk, counted COUNTED_S ago at most.

    Edge's write-ahead log is not counted: searches read none of it, and its size is that of the last writes.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._counted: tuple[float, int] | None = None

    async def bytes(self) -> int:
        if self._counted is None or time.monotonic() - self._counted[0] > COUNTED_S:
            self._counted = time.monotonic(), await asyncio.to_thread(disk_usage, self._folder, LOG)
        return self._counted[1]

    def forget(self) -> None:
        """Makes the next call count again."""
        self._counted = None


def disk_usage(folder: Path, without: str | None = None) -> int:
    """Returns the bytes that a folder takes on the disk, without holes, and without folders of one name. Files that
    vanish meanwhile count as none."""
    used = 0
    for at, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != without]
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                used += (Path(at) / name).lstat().st_blocks * 512
    return used
