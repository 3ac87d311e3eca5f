"""Request bodies: bounded while they stream, JSON only, and watched for callers who hang up."""

import asyncio
import json
from typing import Any, NoReturn

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.chassis.errors import BodyTooLarge, ClientGone, Malformed, UnsupportedMedia


class BodyMiddleware:
    """Reads the body within `most_bytes`, refuses what is not JSON, and cancels the work when the caller hangs up."""

    def __init__(self, app: ASGIApp, *, most_bytes: int) -> None:
        self.app = app
        self.most_bytes = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        declared = headers.get("content-length", "0")
        if not declared.isdigit() or int(declared) > self.most_bytes:
            raise self._too_large()
        body = await self._read(receive)
        if body:
            _check_media(headers)
        await _until_hung_up(self.app, scope, body, receive, send)

    async def _read(self, receive: Receive) -> bytes:
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone("The caller hung up while sending.")
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > self.most_bytes:
                raise self._too_large()
            chunks.append(chunk)
            if not message.get("more_body", False):
                return b"".join(chunks)

    def _too_large(self) -> BodyTooLarge:
        return BodyTooLarge(f"A body may have at most {self.most_bytes} bytes; send smaller batches.")


def _check_media(headers: Headers) -> None:
    media = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json" and not media.endswith("+json"):
        raise UnsupportedMedia("Send the body as JSON, with the header Content-Type: application/json.")
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise UnsupportedMedia("Send the body uncompressed, without Content-Encoding.")


async def _until_hung_up(app: ASGIApp, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
    """Runs the app; Starlette does not stop a handler whose caller has gone, so we cancel it."""
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


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


class JsonRequest(Request):
    """A request whose JSON is parsed so that every malformed body is a 400 and lone surrogates reach validation."""

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            try:
                self._json = json.loads((await self.body()).decode(), parse_constant=_refuse_constant)
            except RecursionError as error:
                raise Malformed("The JSON is nested too deeply.") from error
            except ValueError as error:  # bad UTF-8, bad JSON, NaN, a number of thousands of digits
                raise Malformed("The body is not valid JSON in UTF-8.") from error
        return self._json


class JsonRoute(APIRoute):
    """The route class of all our routers."""

    def get_route_handler(self) -> Any:  # the return type is FastAPI's own
        handle = super().get_route_handler()

        async def with_json_request(request: Request) -> Any:
            return await handle(JsonRequest(request.scope, request.receive))

        return with_json_request
