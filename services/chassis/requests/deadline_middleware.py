"""Reads the deadline of a request from its header and enforces it. deadlines.py owns the value."""

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.chassis.deadlines import DEADLINE_HEADER, DEFAULT_MS, MOST_MS, Deadline, set_deadline
from services.chassis.errors import DeadlineExceeded, Malformed
from services.chassis.requests.handling import handling_of
from services.chassis.requests.telemetry import received_at


def parse_deadline(header: str | None, default_ms: int, received: float) -> Deadline:
    """Parses the deadline of a request `received` then, by time.monotonic.

    Raises Malformed for anything but 1 to 120,000 whole milliseconds.
    """
    if header is None:
        return Deadline.after_ms(default_ms, received)
    if not header.isascii() or not header.isdigit() or len(header) > 7 or not 1 <= int(header) <= MOST_MS:
        raise Malformed(f"X-Deadline-Ms must be a whole number of milliseconds from 1 to {MOST_MS}.")
    return Deadline.after_ms(int(header), received)


class DeadlineMiddleware:
    """Cancels a request whose deadline has passed and answers 504."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        default_ms = MOST_MS if handling_of(scope).slow else DEFAULT_MS
        deadline = parse_deadline(Headers(scope=scope).get(DEADLINE_HEADER), default_ms, received_at(scope))
        set_deadline(deadline)
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
