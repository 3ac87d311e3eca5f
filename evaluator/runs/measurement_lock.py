"""Locks a folder of runs: two measurements at once would slow each other, and neither would show it.

Whatever sends load to the services takes it, `ingest` and `parity` too: their work would count as CPU time of the
measured services, so that no rule sees it. The operating system releases the lock when its process ends, however it
ends.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evaluator.errors import EvaluationError
from services.files.disk_writes import naming
from services.files.regular_file import open_lock, open_regular

LOCK = ".measurement.lock"


class MeasurementRunning(EvaluationError):
    """Another measurement or load of a collection runs; the message names it."""


class MeasurementLock:
    """The lock of one folder of runs, held from `take` to `release`."""

    def __init__(self, runs: Path) -> None:
        runs.mkdir(parents=True, exist_ok=True)
        self._path = runs / LOCK
        self._file = open_lock(self._path)

    def take(self) -> None:
        """Takes the lock. Raises MeasurementRunning while another measurement of this folder holds it."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = self._file.read().decode() or "a measurement that has just begun"
            self._file.close()
            raise MeasurementRunning(
                f"{holder} is running in this folder of runs, and two at once would slow each other; wait for its end"
            ) from error
        self.name("")

    def name(self, run: str) -> None:
        """Writes which run holds the lock, for the message to others."""
        with naming(self._path):
            self._file.seek(0)
            self._file.truncate()
            self._file.write(run.encode())

    def release(self) -> None:
        """Gives the lock back."""
        self._file.truncate(0)
        self._file.close()


def is_measured(runs: Path, run: str) -> bool:
    """Returns whether the lock of a folder is held for a run, or for the suite that it is in."""
    try:
        with open_regular(runs / LOCK) as file:
            named = file.read(4_096).decode().rpartition(" of ")[2]  # alone, or as in `ingest of RUN`
            if not named or named not in (run, run.partition("/")[0]):
                return False
            # A killed process leaves its name, not its lock. Tried for such a run alone: a measurement that begins
            # in this moment would be refused.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:  # nothing was measured here
        pass
    return False


@contextmanager
def measuring(runs: Path) -> Iterator[MeasurementLock]:
    """Holds the lock of a folder of runs. Raises MeasurementRunning while another measurement does."""
    lock = MeasurementLock(runs)
    lock.take()
    try:
        yield lock
    finally:
        lock.release()
