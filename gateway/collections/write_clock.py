"""Owns the versions of writes: they order the writes of this gateway and, as far as it sees them, of all gateways."""

import time
from collections.abc import Callable


class WriteClock:
    """A hybrid logical clock: microseconds since 1970, strictly increasing, above every version it was advanced to."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """`clock` returns Unix seconds; it may stand still or go back."""
        self._clock = clock
        self._last = 0

    def next(self) -> int:
        """Returns a version above all earlier ones."""
        self._last = max(int(self._clock() * 1e6), self._last + 1)
        return self._last

    def advance(self, version: int | None) -> None:
        """Continues above a version that another gateway assigned."""
        self._last = max(self._last, version or 0)
