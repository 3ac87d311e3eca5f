"""Adds bounds to uvicorn's HTTP/1.1 protocol on httptools, enforced before an app sees the request.

httptools itself bounds nothing: it keeps a header of 200 MB, and copies all of it with each piece that arrives.
"""

import asyncio
import contextvars
import math
import time
from collections.abc import Callable, Iterable
from typing import Any, Literal
from weakref import WeakMethod

import httptools
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from services.chassis.errors import HeadTooLarge, Malformed, Overloaded, ProblemError, UrlTooLong
from services.chassis.requests.callers import caller_of
from services.chassis.requests.rendering import render
from services.chassis.requests.telemetry import (
    PAUSES,
    PROBES,
    RECEIVED_AT,
    REQUEST_ID_HEADER,
    WATCHES,
    WRONG_KEY,
    assign_request_id,
)
from services.chassis.server.connections import Connections

# A client that sends deep searches without pause reads a refusal and sends the next one within a millisecond. A full
# core would refuse it; so it is refused ten times per second on each connection.
PAUSE_S = 0.1
# On one connection the second of two wrong keys is answered this long after the first one, and each further one after
# twice as long. It may be a proxy's, with the requests of many callers: right keys are never held back.
KEY_PAUSE_S = 0.1
MOST_KEY_PAUSE_S = 3.2


class TooManyPipelined(Exception):
    """Too many pipelined requests. Those before are answered, then the connection is closed."""


class KeyPause:
    """The pause of one connection. Times are seconds of the event loop's clock.

    A right key resets it, as do MOST_KEY_PAUSE_S without a wrong one: keys that are rarer gain nothing.
    """

    def __init__(self) -> None:
        self._pause_s = KEY_PAUSE_S
        self._until = -math.inf

    def wait_s(self, now: float) -> float:
        """Returns the seconds for which a wrong key is not answered yet."""
        return max(0.0, self._until - now)

    def note_wrong(self, now: float) -> None:
        """Begins a pause: a wrong key was answered."""
        if now > self._until + MOST_KEY_PAUSE_S:
            self._pause_s = KEY_PAUSE_S
        self._until = now + self._pause_s
        self._pause_s = min(2 * self._pause_s, MOST_KEY_PAUSE_S)

    def note_right(self, now: float) -> None:
        """Shortens the pause to the first one: a right key was answered. Wrong keys between right ones are slow too."""
        self._pause_s = KEY_PAUSE_S
        self._until = min(self._until, now + KEY_PAUSE_S)


class BoundedHttp(HttpToolsProtocol):
    """One connection. A request outside its bounds is answered with a problem if possible; then it is closed."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        assert isinstance(server_state, Connections)
        self._owner = server_state
        self._bounds = server_state.bounds
        self._awaits: Literal["head", "body", "nothing"] = "nothing"
        self._head_bytes = 0
        # Bytes that the parser has buffered without a callback: half a header, trailers, extensions of chunks.
        self._unparsed = 0
        self._ignores_input = False
        self._has_left = False
        self._only_probes = False
        self._key_pause = KeyPause()
        self._held: asyncio.TimerHandle | None = None  # ends with the answer to a wrong key
        self._answered: RequestResponseCycle | None = None  # or being answered; later ones may have been read since
        self._when_lost: Callable[[], None] | None = None

    # Called by Connections.

    @property
    def closing(self) -> bool:
        """Whether it closes once everything is written."""
        return self.transport.is_closing()

    def close(self) -> None:
        """Closes it once everything is written."""
        self._ignores_input = True
        self.transport.close()

    def abort(self) -> None:
        """Closes it now."""
        self._ignores_input = True
        self.transport.abort()

    def refuse(self, error: ProblemError) -> None:
        """Answers the current request with a problem, and closes."""
        self._owner.count_ended(error.kind)
        self._ignores_input = True
        cycle = self.cycle
        working = cycle is not None and not cycle.response_complete
        if working and self._awaits != "body":
            # A later one of several pipelined requests: those before it are answered, none after it.
            self._answer_last(cycle)
            return
        if self._awaits == "nothing" and not self._unparsed:
            self.transport.close()  # there is no request to answer
            return
        if cycle is not None and self._awaits == "body":
            if cycle.response_started:
                self.transport.abort()  # an answer has begun: a second one would be read as part of it
                return
            cycle.disconnected = True
            cycle.message_event.set()
        if self._held is not None:  # what follows is its answer
            self._held.cancel()
            self._held = None
        response = contextvars.copy_context().run(_with_request_id, error)
        self._write(response, closes=True)
        self.end_sending()

    def end_sending(self) -> None:
        """Ends our side, and reads on for a while: closing while the caller sends would discard our answer.

        A long answer that waits to be read has bounds of its own: then it closes when that is sent.
        """
        if self._has_left or self.transport.is_closing():  # the caller may have left before
            return
        self._has_left = self._ignores_input = True
        if self.flow.write_paused or not self.transport.can_write_eof():
            self.transport.close()
            return
        self.transport.write_eof()
        self.flow.resume_reading()
        self._owner.linger(self, self.loop.time())

    def _answer_last(self, cycle: RequestResponseCycle) -> None:
        """Lets the connection end with the answer to this request, whose body may still arrive."""
        cycle.keep_alive = False
        last: Any = LastAnswer(self.end_sending, cycle.transport)
        cycle.transport = last

    def _write(self, response: Response, *, closes: bool, has_body: bool = True) -> None:
        """Writes an answer at once: between two writes, a full buffer would make the second one wait."""
        head = [*self.server_state.default_headers, *response.raw_headers]
        if closes:
            head.append((b"connection", b"close"))
        self.transport.write(head_of(response.status_code, head) + (bytes(response.body) if has_body else b""))

    # Called by the event loop.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        if not self._owner.admit(self, self.loop.time()):
            self._only_probes = True
            self.app = probes_only(self.app)

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.forget(self)
        if self._answered is not None:
            self._answered.disconnected = True  # uvicorn notifies only the last one that was read
        super().connection_lost(exc)
        if self._when_lost is not None:
            self._when_lost()
        # A reference cycle with the requests would keep both until a full garbage collection.
        self.pipeline.clear()
        self._answered = self.cycle = None  # type: ignore[assignment]  # as uvicorn begins

    def data_received(self, data: bytes) -> None:
        if self._ignores_input:
            return
        self._owner.on_data(self, self.loop.time())
        self._unparsed += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # An upgrade was offered and not taken (HTTP/2 clients do this): serve the request, then close.
            self._ignores_input = True
            self._answer_last(self.cycle)
        except httptools.HttpParserError as error:
            self._refuse_unparsed(error)
        else:
            if self._unparsed > self._bounds.head_bytes:
                self.refuse(self._head_too_large())

    def pause_writing(self) -> None:
        super().pause_writing()
        self._owner.add_unread(self, self.transport.get_write_buffer_size(), self.loop.time())

    def resume_writing(self) -> None:
        super().resume_writing()
        self._owner.remove_unread(self)

    # Called by the parser.

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._awaits = "head"
        self._head_bytes = 0

    def on_url(self, url: bytes) -> None:
        self.url += url
        if len(self.url) > self._bounds.url_bytes:
            raise UrlTooLong(f"A URL may have at most {self._bounds.url_bytes} bytes; send the rest in a body.")

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= self._bounds.headers:
            raise self._head_too_large()
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > self._bounds.head_bytes:
            raise self._head_too_large()
        if self._awaits == "head":  # trailers of a body are dropped: no route uses them
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._unparsed = 0
        if self.parser.should_upgrade():
            self._check_upgrade()
        if len(self.pipeline) >= self._bounds.pipelined:
            raise TooManyPipelined
        scope: Any = self.scope  # the key is ours
        scope[RECEIVED_AT] = time.monotonic()
        super().on_headers_complete()
        self._awaits = "body"
        # Not after an early refusal: the rest of the request is still to come.
        if self._held is None and not self.cycle.response_complete:
            self._owner.on_head_complete(self)

    def on_body(self, body: bytes) -> None:
        self._unparsed = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unparsed = 0
        self._awaits = "nothing"
        super().on_message_complete()
        if self.cycle.response_complete:  # it was answered, usually refused, before it had fully arrived
            self._owner.mark_idle(self, self.loop.time())

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:  # `app`: an ASGI app, as uvicorn has it
        if self._has_left:
            return
        scope: Any = cycle.scope
        self._answered = cycle
        if self._owner.draining:
            self._answer_last(cycle)
        self._owner.forwarded(scope)
        refusal = None if self.flow.write_paused or self._only_probes else self._owner.early_refusal(scope)
        if scope.get(WRONG_KEY, False):
            now = self.loop.time()
            if wait_s := self._key_pause.wait_s(now):
                self.flow.pause_reading()
                self._owner.mark_asking(self, now)  # it may be closed to make room
                self._held = self.loop.call_later(wait_s, self._release, cycle, app, refusal)
                return
        self._begin(cycle, app, refusal)

    def _release(self, cycle: RequestResponseCycle, app: Any, refusal: Response | None) -> None:
        self._held = None
        if self.transport.is_closing():
            return
        self._owner.on_head_complete(self)
        if not self.pipeline:
            self.flow.resume_reading()
        self._begin(cycle, app, refusal)

    def _begin(self, cycle: RequestResponseCycle, app: Any, refusal: Response | None) -> None:
        if refusal is None:
            scope: Any = cycle.scope
            scope[WATCHES] = self.watch
            whole: Any = in_one_piece(app, cycle)
            super()._start_asgi_task(cycle, whole)
            return
        cycle.response_started = cycle.response_complete = True
        self._write(refusal, closes=not cycle.keep_alive, has_body=cycle.scope["method"] != "HEAD")
        if not cycle.keep_alive:
            cycle.transport.close()
        self.on_response_complete()

    # Called by a request.

    def watch(self, when_lost: Callable[[], None] | None) -> None:
        """Calls `when_lost` when the caller leaves before the answer; None ends that."""
        self._when_lost = when_lost

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing() or self._has_left:
            return
        if not self.pipeline:
            if self._awaits == "nothing":
                self._owner.mark_idle(self, self.loop.time())
            else:
                self._owner.mark_asking(self, self.loop.time())
        assert self._answered is not None
        scope: Any = self._answered.scope
        if scope.get(WRONG_KEY, False):
            self._key_pause.note_wrong(self.loop.time())
        elif caller_of(scope) is not None:
            self._key_pause.note_right(self.loop.time())
        if scope.get(PAUSES, False):
            self.flow.pause_reading()
            self.loop.call_later(PAUSE_S, self._go_on)
        else:
            self._go_on()

    def _go_on(self) -> None:
        """Reads on, and begins the next of the requests that were read already."""
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)

    def _check_upgrade(self) -> None:
        names = {name for name, _ in self.headers}
        if self._get_upgrade() == b"websocket":
            raise Malformed("There are no websockets here; send plain HTTP/1.1 requests.")
        # The parser drops the body of such a request, so the app would see an empty one.
        if names & {b"content-length", b"transfer-encoding"}:
            raise Malformed("Send this without the header Upgrade: only HTTP/1.1 is served here.")

    def _refuse_unparsed(self, error: httptools.HttpParserError) -> None:
        match error.__context__:
            case ProblemError() as cause:
                self.refuse(cause)
            case TooManyPipelined():
                self._owner.count_ended("pipelined")
                self._ignores_input = True
                self._answer_last(self.cycle)
            case _:
                self.refuse(Malformed("This is not a request of HTTP/1.1."))

    def _head_too_large(self) -> HeadTooLarge:
        bounds = self._bounds
        return HeadTooLarge(f"Send at most {bounds.headers} headers, {bounds.head_bytes} bytes in all.")


def _with_request_id(error: ProblemError) -> Response:
    identity = assign_request_id("")
    response = render(error)
    response.headers[REQUEST_ID_HEADER] = identity
    return response


def probes_only(app: ASGIApp) -> ASGIApp:
    """Returns an app that serves only probes, for a connection above the bound."""
    refusal = Overloaded("There are too many connections; keep fewer, and try again.", retry_after_s=1)

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in PROBES:
            await app(scope, receive, send)
            return
        response = render(refusal)
        response.headers["connection"] = "close"
        await response(scope, receive, send)

    return serve


def head_of(status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Returns the head of an answer. Raises ValueError for a header that would end its line."""
    lines = [STATUS_LINE[status], *(b"%s: %s\r\n" % header for header in headers), b"\r\n"]
    head = b"".join(lines)
    if head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines):
        raise ValueError("a header of the answer holds a line end")
    return head


def in_one_piece(app: ASGIApp, cycle: RequestResponseCycle) -> ASGIApp:
    """Returns an app that writes usual answers at once: two writes, as of uvicorn, would wake the reader twice."""

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
            scope.pop(WATCHES, None)  # a cycle with the connection would keep both until a full garbage collection

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
    """The transport of the last request that a connection answers: closing it ends our side of the connection."""

    def __init__(self, end_sending: Callable[[], None], transport: asyncio.Transport) -> None:
        # The protocol has its requests: a reference cycle would keep them until a full garbage collection.
        self._end_sending = WeakMethod(end_sending)
        self._transport = transport

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        end_sending = self._end_sending()
        if end_sending is not None:
            end_sending()
