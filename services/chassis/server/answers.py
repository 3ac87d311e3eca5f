"""Writes answers to a connection: each in one piece where its length is known, the last one before taking leave."""

import asyncio
from collections.abc import Callable, Iterable
from weakref import WeakMethod

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from services.chassis.requests.telemetry import WATCHES


def head_of(status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Returns the head of an answer. Raises ValueError for a header that would end its line."""
    lines = [STATUS_LINE[status], *(b"%s: %s\r\n" % header for header in headers), b"\r\n"]
    head = b"".join(lines)
    if head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines):
        raise ValueError("a header of the answer holds a line end")
    return head


def in_one_piece(app: ASGIApp, cycle: RequestResponseCycle) -> ASGIApp:
    """Returns an app whose usual answers are written at once. uvicorn writes head and body apart, which wakes the
    reader twice."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        held: Message | None = None

        async def join(message: Message) -> None:
            nonlocal held
            if message["type"] == "http.response.start" and _is_usual(message["headers"], cycle):
                held = message
                return
            start, held = held, None
            if start is not None:
                if not (message.get("more_body", False) or cycle.disconnected or cycle.flow.write_paused):
                    _write_answer(cycle, start, message["body"])
                    return
                await send(start)
            await send(message)

        try:
            await app(scope, receive, join)
        finally:
            scope.pop(WATCHES, None)  # the connection has the scope: a circle would keep both until a full collection

    return serve


def _is_usual(headers: Iterable[tuple[bytes, bytes]], cycle: RequestResponseCycle) -> bool:
    """Returns whether an answer has a length, and leaves the connection open."""
    names = {name for name, _ in headers}
    return b"content-length" in names and b"connection" not in names and cycle.keep_alive


def _write_answer(cycle: RequestResponseCycle, start: Message, body: bytes) -> None:
    head = head_of(start["status"], [*cycle.default_headers, *start["headers"]])
    cycle.response_started = cycle.response_complete = True
    cycle.transport.write(head if cycle.scope["method"] == "HEAD" else head + body)
    cycle.message_event.set()
    cycle.on_response()


class LastAnswer:
    """The transport of the last request that a connection answers: closing it takes leave."""

    def __init__(self, take_leave: Callable[[], None], transport: asyncio.Transport) -> None:
        # The protocol knows its requests: a circle would keep them until a full garbage collection.
        self._take_leave = WeakMethod(take_leave)
        self._transport = transport

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        take_leave = self._take_leave()
        if take_leave is not None:
            take_leave()
