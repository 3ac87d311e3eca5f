"""Owns deadlines: each hop receives the remaining time, spends a part and forwards the rest. Does not enforce them."""

import time
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Self

from services.chassis.errors import DeadlineExceeded, Malformed

DEADLINE_HEADER = "x-deadline-ms"
DEFAULT_MS = 10_000
# Of a search through the gateway: a person waits for it. Late parts of it are left out, and flagged.
SEARCH_MS = 2_000
MOST_MS = 120_000
# The share of the time left that a ReplyReserve takes.
REPLY_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Deadline:
    """A time on this process's monotonic clock, in seconds. Hosts exchange only the remaining time: clocks differ."""

    at: float

    @classmethod
    def after_ms(cls, ms: float, since: float | None = None) -> Self:
        """Returns the deadline `ms` milliseconds from now, or from `since`, a time of time.monotonic."""
        return cls((time.monotonic() if since is None else since) + ms / 1000)

    @property
    def remaining_s(self) -> float:
        """Seconds left, never below 0."""
        return max(0.0, self.at - time.monotonic())

    @property
    def remaining_ms(self) -> int:
        """Whole milliseconds left, never below 0."""
        return int(self.remaining_s * 1000)

    def after_share(self, share: float) -> Self:
        """Returns the deadline at which this share (0 to 1) of the time that is left now is over."""
        return replace(self, at=self.at - (1.0 - share) * self.remaining_s)

    def require_before(self, work: str) -> None:
        """Raises DeadlineExceeded, which names the `work` that would begin now, if less than a millisecond remains."""
        if not self.remaining_ms:
            raise DeadlineExceeded(f"The deadline passed before {work} began; send a larger X-Deadline-Ms.")

    def header(self) -> Mapping[str, str]:
        """Returns the header for the next hop. Raises DeadlineExceeded if less than a millisecond remains."""
        if self.remaining_ms < 1:
            raise DeadlineExceeded("The deadline has passed; send a larger X-Deadline-Ms.")
        return {DEADLINE_HEADER: str(self.remaining_ms)}


def parse_deadline(header: str | None, default_ms: int, received: float) -> Deadline:
    """Parses the deadline of a request `received` then, by time.monotonic.

    Raises Malformed for anything but 1 to 120,000 whole milliseconds.
    """
    if header is None:
        return Deadline.after_ms(default_ms, received)
    if not header.isascii() or not header.isdigit() or len(header) > 7 or not 1 <= int(header) <= MOST_MS:
        raise Malformed(f"X-Deadline-Ms must be a whole number of milliseconds from 1 to {MOST_MS}.")
    return Deadline.after_ms(int(header), received)


_current: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


def current_deadline() -> Deadline:
    """Returns the deadline of the current request; outside of a request, the default one."""
    return _current.get() or Deadline.after_ms(DEFAULT_MS)


def set_deadline(deadline: Deadline) -> None:
    """Sets the deadline of the current request."""
    _current.set(deadline)


@dataclass(frozen=True, slots=True)
class ReplyReserve:
    """Reserves a tenth of the remaining time, within bounds in seconds: the answer is to be written and to arrive."""

    least_s: float
    most_s: float

    def before(self, deadline: Deadline) -> Deadline:
        """Returns the earlier deadline by which the work must end."""
        return Deadline(deadline.at - min(self.most_s, max(self.least_s, REPLY_SHARE * deadline.remaining_s)))


# For a search: fusing the rankings, writing the answer, and one time slice of a busy scheduler.
FOR_A_SEARCH = ReplyReserve(least_s=0.01, most_s=0.25)
# For partial scores: writing, sending and a busy event loop at the caller, who loses all scores of a late answer.
FOR_SCORES = ReplyReserve(least_s=0.008, most_s=0.05)
# Seconds to write one hit of a search: twice the 6 ms that 1,000 hits took to write and send on two shared cores. A
# re-ranking reserves them; the answer would be late otherwise.
WRITING_S_PER_HIT = 12e-6
