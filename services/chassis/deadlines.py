"""Time is a budget passed along: each hop receives what remains, spends part, forwards the rest."""

import asyncio
import time
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Self

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.chassis.errors import DeadlineExceeded, Malformed
from services.chassis.handling import handling_of

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


def parse(header: str | None, default_ms: int) -> Deadline:
    """The deadline that a request carries. Raises Malformed for anything but 1 to 120,000 whole milliseconds."""
    if header is None:
        return Deadline.after_ms(default_ms)
    if not header.isascii() or not header.isdigit() or len(header) > 7 or not 1 <= int(header) <= MOST_MS:
        raise Malformed(f"X-Deadline-Ms must be a whole number of milliseconds from 1 to {MOST_MS}.")
    return Deadline.after_ms(int(header))


class DeadlineMiddleware:
    """Cancels the work on a request whose deadline has passed and answers 504."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        default_ms = MOST_MS if handling_of(scope).slow else DEFAULT_MS
        deadline = parse(Headers(scope=scope).get(DEADLINE_HEADER), default_ms)
        _current.set(deadline)
        started = False

        async def answer(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            async with asyncio.timeout(deadline.remaining_s) as bound:
                await self.app(scope, receive, answer)
        except TimeoutError as error:
            if started or not bound.expired():
                raise
            raise DeadlineExceeded("Not done within X-Deadline-Ms; send a larger one or ask for less.") from error
