"""Owns the journal: what experiments showed and what units did, as lines of JSON in files of one process."""

import asyncio
import itertools
import logging
import os
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from gateway.instruments import GatewayInstruments
from services.chassis.errors import Unavailable
from services.chassis.settings.configuration import ConfigurationError
from services.contracts.online import SentEvent, event_lines

logger = logging.getLogger(__name__)

MOST_FILE_BYTES = 64 * 2**20
# Exposures are written together: one by one, waking the thread took longer than the writing.
FLUSH_S = 0.1
# A disk that stands still for longer than these take loses the next exposures.
MOST_UNWRITTEN_BYTES = 64 * 2**20


class LineFile:
    """Appends lines to files of one kind, a new one from MOST_FILE_BYTES on. Blocking; used by one thread."""

    def __init__(self, directory: Path, kind: str) -> None:
        self._paths = (
            directory / f"{kind}-{datetime.now(UTC):%Y%m%dT%H%M%S}-{socket.gethostname()}-{os.getpid()}-{number}.jsonl"
            for number in itertools.count()
        )
        self._descriptor: int | None = None
        self._bytes = 0

    def append(self, lines: bytes) -> None:
        """Hands whole lines to the kernel. Raises OSError, and leaves no part of them."""
        # Into a file that was removed, lines would go unseen.
        gone = self._descriptor is None or os.fstat(self._descriptor).st_nlink == 0
        if gone or self._bytes >= MOST_FILE_BYTES:
            self._open_next()
        assert self._descriptor is not None
        written = 0
        try:
            while written < len(lines):
                written += os.write(self._descriptor, lines[written:])
        except OSError:
            os.ftruncate(self._descriptor, self._bytes)
            raise
        self._bytes += len(lines)

    def close(self) -> None:
        """Closes the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open_next(self) -> None:
        self.close()
        for path in self._paths:
            try:
                self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o640)
            except FileExistsError:
                continue  # of a process that had this id a moment ago
            self._bytes = 0
            return


class Journal:
    """Writes exposures behind the searches, and events before they are acknowledged, in one thread."""

    def __init__(self, directory: Path, instruments: GatewayInstruments) -> None:
        """Makes the directory if need be. Raises ConfigurationError where it cannot be written."""
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"GATEWAY_JOURNAL: {error}") from error
        if not os.access(directory, os.W_OK | os.X_OK):
            raise ConfigurationError(f"GATEWAY_JOURNAL: {directory} cannot be written by this process")
        self._shown, self._events = (LineFile(directory, kind) for kind in ("ubi_queries", "ubi_events"))
        self._lines = instruments.journal_lines
        self._thread = ThreadPoolExecutor(1, "journal")
        self._waiting: list[bytes] = []
        self._exposed, self._done = 0, 0  # bytes, counted by the event loop, and by the thread
        self._failing = False

    def expose(self, line: bytes) -> None:
        """Keeps what a search showed, a line of an Exposure. Neither blocks nor raises: what is lost is counted."""
        if self._exposed - self._done >= MOST_UNWRITTEN_BYTES:
            self._lines.labels("exposure", "lost").inc()
            return
        self._exposed += len(line)
        self._waiting.append(line)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_later(FLUSH_S, self._flush)

    async def record(self, events: tuple[SentEvent, ...]) -> None:
        """Returns once the kernel has the events. Raises Unavailable where they cannot be written."""
        append = partial(self._events.append, event_lines(events, datetime.now(UTC)))
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, append)
        except OSError as error:
            self._lines.labels("event", "lost").inc(len(events))
            reason = error.strerror or str(error)
            raise Unavailable(
                f"The journal cannot be written ({reason}); send the events again.", retry_after_s=10
            ) from error
        self._lines.labels("event", "written").inc(len(events))

    async def aclose(self) -> None:
        """Writes what waits, and closes the files."""
        self._flush()
        await asyncio.to_thread(self._thread.shutdown)
        self._shown.close()
        self._events.close()

    def _flush(self) -> None:
        if self._waiting:
            batch, self._waiting = self._waiting, []
            self._thread.submit(self._write, batch)

    def _write(self, batch: Sequence[bytes]) -> None:
        lines = b"".join(batch)
        try:
            self._shown.append(lines)
        except OSError as error:
            if not self._failing:
                logger.error("the journal cannot be written, exposures are lost: %s", error)
            outcome, self._failing = "lost", True
        else:
            outcome, self._failing = "written", False
        self._lines.labels("exposure", outcome).inc(len(batch))
        self._done += len(lines)
