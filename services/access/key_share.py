"""Owns how much of a process a key may take: requests a second, and requests in flight."""

import time
from collections.abc import Callable


class KeyShare:
    """A token bucket that holds a second's worth of requests (at least one), and a count of those in flight."""

    def __init__(
        self, per_second: float | None, at_once: int | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_second = per_second
        self._at_once = at_once
        self._clock = clock
        self._most = max(1.0, per_second or 0.0)
        self._left = self._most
        self._filled_at = clock()
        self._in_flight = 0

    def fits(self, per_second: float | None, at_once: int | None) -> bool:
        """Returns whether these are its bounds."""
        return (per_second, at_once) == (self._per_second, self._at_once)

    def wait_s(self) -> float:
        """Takes one request out of the rate and returns 0, or returns the seconds until there is one."""
        if self._per_second is None:
            return 0.0
        now = self._clock()
        self._left = min(self._most, self._left + (now - self._filled_at) * self._per_second)
        self._filled_at = now
        if self._left < 1.0:
            return (1.0 - self._left) / self._per_second
        self._left -= 1.0
        return 0.0

    def enter(self) -> bool:
        """Takes a place in flight. Returns False if all are taken. Whoever enters must leave."""
        if self._at_once is not None and self._in_flight >= self._at_once:
            return False
        self._in_flight += 1
        return True

    def leave(self) -> None:
        """Gives a place in flight back."""
        self._in_flight -= 1
