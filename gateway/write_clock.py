"""The versions of writes: the order in which this gateway, and as far as it can tell every gateway, was given them."""

import time
from collections.abc import Callable


class WriteClock:
    """A hybrid logical clock: microseconds since 1970, never twice the same, never behind what it was shown."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives Unix seconds; it may stand still or go back."""
        self._clock = clock
        self._last = 0

    def next(self) -> int:
        """A version above all before."""
        self._last = max(int(self._clock() * 1e6), self._last + 1)
        return self._last

    def seen(self, version: int | None) -> None:
        """Goes on above a version that another gateway gave."""
        self._last = max(self._last, version or 0)
