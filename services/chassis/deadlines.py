"""Owns deadlines: each hop receives what remains, spends part, forwards the rest. Does not read or enforce them."""

import time
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Self

from services.chassis.errors import DeadlineExceeded

DEADLINE_HEADER = "x-deadline-ms"
DEFAULT_MS = 10_000
MOST_MS = 120_000


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment on this process' monotonic clock, in seconds. Only what remains travels: clocks differ between hosts."""

    at: float

    @classmethod
    def after_ms(cls, ms: float) -> Self:
        """The moment `ms` milliseconds from now."""
        return cls(time.monotonic() + ms / 1000)

    @property
    def remaining_s(self) -> float:
        """Seconds left, never below 0."""
        return max(0.0, self.at - time.monotonic())

    @property
    def remaining_ms(self) -> int:
        """Whole milliseconds left, never below 0."""
        return int(self.remaining_s * 1000)

    def header(self) -> Mapping[str, str]:
        """What the next hop is told. Raises DeadlineExceeded when nothing remains to be passed on."""
        if self.remaining_ms < 1:
            raise DeadlineExceeded("The deadline has passed; send a larger X-Deadline-Ms.")
        return {DEADLINE_HEADER: str(self.remaining_ms)}


_current: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


def current_deadline() -> Deadline:
    """The deadline of the request being served; the default one outside of a request."""
    return _current.get() or Deadline.after_ms(DEFAULT_MS)


def serve_until(deadline: Deadline) -> None:
    """Makes this the deadline of the request being served."""
    _current.set(deadline)
