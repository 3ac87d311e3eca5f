"""Reads request bodies: bounds size, pace and total memory, cancels the work on a disconnect.

Accepts JSON, and of routes that declare it, forms.
"""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from typing import Any

from fastapi import Request
from fastapi.routing import APIRoute
from fastapi.utils import create_model_field
from pydantic import BaseModel
from starlette.datastructures import Headers, QueryParams
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.chassis.errors import (
    BadInput,
    BodyTooLarge,
    ClientGone,
    Overloaded,
    ProblemError,
    RequestTimeout,
    UnsupportedMedia,
)
from services.chassis.instruments import Instruments
from services.chassis.requests.handling import handling_of
from services.chassis.requests.heap_trimming import HeapTrimmer
from services.chassis.requests.json_shape import parse_json
from services.chassis.requests.telemetry import PROBES
from services.contracts.problem import FieldError, Problem
from services.contracts.validation_messages import known_fields

# A body may take this many seconds (the event loop may stall for one or two), plus its size divided by this rate.
GRACE_S = 5.0
LEAST_BYTES_S = 32_768
# Most bytes of all bodies in memory. The first 64 KiB of each are not counted, so that large batches do not cause
# searches to be refused.
MOST_TOTAL_BYTES = 64_000_000
UNCOUNTED_BYTES = 65_536
# Of a route that is open to all. The form of a login is 6.2 KB at most: a key, a token and an address of 2,001
# characters, each of which may be encoded in three bytes. Less than UNCOUNTED_BYTES: of the total, it takes nothing.
OPEN_BODY_BYTES = 8_192


class BodyMiddleware:
    """Reads the body within its bounds, refuses types that a route does not take, cancels work on a disconnect."""

    def __init__(self, app: ASGIApp, *, most_bytes: int, instruments: Instruments) -> None:
        self.app = app
        self.most_bytes = most_bytes
        self._instruments = instruments
        self._counted_bytes = 0
        self._trimmer = HeapTrimmer()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers, most_bytes = Headers(scope=scope), self._most_bytes_of(scope)
        declared = headers.get("content-length", "0").strip()  # trailing blanks are not part of the value (RFC 9112, 5)
        if not declared.isdigit() or int(declared) > most_bytes:
            raise _too_large(most_bytes)
        if not most_bytes:
            if "transfer-encoding" in headers:  # it may be long in coming
                raise _too_large(0)
            await _run_until_disconnect(self.app, scope, b"", receive, send)
            return
        counted = CountedBytes()
        try:
            body = await self._read_in_time(receive, counted, most_bytes)
            # Any page may send a POST of plain text or of nothing to any address without asking first (CORS).
            if body or scope["method"] == "POST":
                _check_media(headers, scope)
            await _run_until_disconnect(self.app, scope, body, receive, send)
        finally:
            self._counted_bytes -= counted.size
            if counted.size:
                self._trimmer.schedule()

    def _most_bytes_of(self, scope: Scope) -> int:
        """Returns how much is read of a body: of a caller who needs no key, next to nothing."""
        if scope["path"] in PROBES:  # by any method: access.py asks for no key there
            return 0
        return min(OPEN_BODY_BYTES, self.most_bytes) if handling_of(scope).scope == "open" else self.most_bytes

    async def _read_in_time(self, receive: Receive, counted: "CountedBytes", most_bytes: int) -> bytes:
        try:
            async with asyncio.timeout(GRACE_S) as bound:
                return await self._read(receive, counted, most_bytes, bound)
        except TimeoutError as error:
            if not bound.expired():
                raise
            raise RequestTimeout(
                f"The body came too slowly; send it at {LEAST_BYTES_S // 1024} KB a second or more.", closes=True
            ) from error

    async def _read(self, receive: Receive, counted: "CountedBytes", most_bytes: int, bound: asyncio.Timeout) -> bytes:
        started = asyncio.get_running_loop().time()
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone("The caller hung up while sending.")
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > most_bytes:
                raise _too_large(most_bytes)
            self._count(counted, size)
            chunks.append(chunk)
            if not message.get("more_body", False):
                return b"".join(chunks)
            bound.reschedule(started + GRACE_S + size / LEAST_BYTES_S)

    def _count(self, counted: "CountedBytes", size: int) -> None:
        more = max(0, size - UNCOUNTED_BYTES) - counted.size
        if self._counted_bytes + more > MOST_TOTAL_BYTES:
            self._instruments.rejected.labels("body").inc()
            raise Overloaded("Too many large bodies are being worked on; send this again, or smaller batches.")
        counted.size += more
        self._counted_bytes += more


@dataclass(slots=True)
class CountedBytes:
    """The bytes of one body that count towards the total."""

    size: int = 0


def _too_large(most_bytes: int) -> BodyTooLarge:
    if not most_bytes:
        return BodyTooLarge("A probe takes no body; send it without one.")
    return BodyTooLarge(f"A body may have at most {most_bytes} bytes here; send a smaller one, or smaller batches.")


def _check_media(headers: Headers, scope: Scope) -> None:
    media = headers.get("content-type", "").partition(";")[0].strip().lower()
    # A page of any site can send a form without asking first (CORS): only routes that declare it take one.
    form = media == "application/x-www-form-urlencoded" and handling_of(scope).form
    if not form and media != "application/json" and not media.endswith("+json"):
        raise UnsupportedMedia("Send the body as JSON, with the header Content-Type: application/json.")
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise UnsupportedMedia("Send the body uncompressed, without Content-Encoding.")


async def _run_until_disconnect(app: ASGIApp, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
    """Runs the app and cancels it when the caller disconnects, which Starlette does not do."""
    handler = asyncio.current_task()
    assert handler is not None
    gone = asyncio.Event()
    answered = False
    replayed = False

    async def replay() -> Message:
        nonlocal replayed
        if not replayed:
            replayed = True
            return {"type": "http.request", "body": body, "more_body": False}
        await gone.wait()
        return {"type": "http.disconnect"}

    async def answer(message: Message) -> None:
        nonlocal answered
        answered = True
        await send(message)

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        gone.set()
        if not answered:
            handler.cancel()

    watcher = asyncio.create_task(watch())
    try:
        await app(scope, replay, answer)
    except asyncio.CancelledError:
        if gone.is_set() and not answered:
            handler.uncancel()
            raise ClientGone("The caller hung up.") from None
        raise
    finally:
        watcher.cancel()


def _release_frames(error: BaseException | None) -> None:
    """Drops the tracebacks of an error and of its causes, whose frames hold the error itself and the request's body.

    Such a cycle stays until the next garbage collection, and `serve` makes those rare.
    """
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__


class JsonRequest(Request):
    """Checks the shape of the JSON before parsing it. Validation handles lone surrogates."""

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            body = await self.body()
            self._json = parse_json(body)
            if len(body) > UNCOUNTED_BYTES:
                await asyncio.sleep(0)  # parsing and validation take up to 0.1 s each: lets other requests run between
        return self._json


@cache
def _error_field(status: int | str, model: type[BaseModel]) -> Any:  # a ModelField, which FastAPI does not export
    return create_model_field(f"Response_{status}", model, mode="serialization")


class JsonRoute(APIRoute):
    """The route class of all routers: parses bodies with JsonRequest, refuses parameters that its API does not have."""

    def __init__(
        self,
        path: str,
        endpoint: Callable[..., Any],
        *,
        responses: dict[int | str, dict[str, Any]] | None = None,
        **given: Any,
    ) -> None:
        super().__init__(path, endpoint, **given)
        # The same models for all routes. FastAPI builds them anew for each: half the time that a route takes.
        self.responses = responses or {}
        self.response_fields = {
            status: _error_field(status, response["model"])
            for status, response in self.responses.items()
            if response.get("model")
        }
        # A vendor's clients may send parameters of their own (Azure's `api-version`), and so may browsers and probes.
        own_wire = path.startswith("/v1/") and self.responses.get("4XX", {}).get("model") is Problem
        self._parameters = {field.alias for field in self.dependant.query_params} if own_wire else None

    def get_route_handler(self) -> Any:  # the return type is FastAPI's own
        handle = super().get_route_handler()

        async def with_json_request(request: Request) -> Any:
            if self._parameters is not None and request.scope["query_string"]:
                self._refuse_unknown(request.query_params, self._parameters)
            try:
                return await handle(JsonRequest(request.scope, request.receive))
            except HTTPException as error:
                problem = error.__cause__
                if not isinstance(problem, ProblemError):
                    raise
                _release_frames(error)
            # FastAPI turns any error raised while reading a body into its own 400: raise ours instead.
            try:
                raise problem
            finally:
                del problem

        return with_json_request

    def _refuse_unknown(self, given: QueryParams, known: Collection[str]) -> None:
        """Raises BadInput for a parameter in the URL that the route does not have, and says where it belongs."""
        in_body = [] if self.body_field is None else known_fields(self.body_field.field_info.annotation, ())
        for name in given:
            if name in known:
                continue
            if name in in_body:
                message = "this belongs in the JSON of the body; nothing of the URL's query is read for it"
            else:
                there = f"those are: {', '.join(sorted(known))}" if known else "it has none"
                message = f"this route has no such parameter in its URL ({there}); leave it out"
            shown = name[:40].encode(errors="replace").decode()
            raise BadInput(f"query.{shown}: {message}.", errors=(FieldError(field=f"query.{shown}", message=message),))
