"""Keeps what the service computes for its readers and measurements apart, by the measurement lock of the folder.

No rule of valid times would see the CPU time of a comparison beside a measurement.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evaluator.machine.measurement_lock import MeasurementLock, MeasurementRunning
from services.chassis.errors import Unavailable

AGAIN_S = 30  # a measurement takes minutes


class MeasurementUnderWay(Unavailable):
    """A measurement runs in this folder; the message names it."""

    kind, title = "measurement-running", "A measurement is running"


class ComputingLock:
    """Holds the measurement lock of a folder while one or more works of this process hold it. For one event loop."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._works: list[str] = []
        self._lock: MeasurementLock | None = None

    def take(self, what: str) -> None:
        """Begins a work; `what`: its name in the message to a measurement. `release` ends it.

        Raises MeasurementUnderWay, and Unavailable in a folder that cannot be written.
        """
        lock = self._lock = self._lock or self._taken()
        self._works.append(what)
        lock.name(self._works[0])

    def release(self, what: str) -> None:
        """Ends a work; the last one gives the lock back."""
        self._works.remove(what)
        if self._lock is None:
            return
        if self._works:
            self._lock.name(self._works[0])
        else:
            self._lock.release()
            self._lock = None

    @contextmanager
    def held(self, what: str) -> Iterator[None]:
        """Holds the lock for a work. Raises as `take`."""
        self.take(what)
        try:
            yield
        finally:
            self.release(what)

    def _taken(self) -> MeasurementLock:
        try:
            lock = MeasurementLock(self._runs)
            lock.take()
        except MeasurementRunning as error:
            raise MeasurementUnderWay(f"{error}.", retry_after_s=AGAIN_S) from error
        except OSError as error:
            raise Unavailable(f"The folder of runs cannot be written: {error.strerror}; see EVALUATOR_RUNS.") from error
        return lock
