"""Reads request bodies: bounds size, pace and total memory, cancels the work on a disconnect.

Accepts JSON, and of routes that declare it, forms. Returns freed memory to the system once large bodies stop arriving:
it lies between blocks still in use, and glibc keeps it. After 60 bodies of up to 8 MB a process held 21 to 55 MiB more
than before. `malloc_trim` releases whole free pages anywhere in the heap.
"""

import asyncio
import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.chassis.errors import BodyTooLarge, ClientGone, Overloaded, RequestTimeout, UnsupportedMedia
from services.chassis.instruments import Instruments
from services.chassis.requests.handling import Handling
from services.chassis.requests.telemetry import PROBES, WATCHES, headers_of

# A body may take this many seconds (the event loop may stall for one or two), plus its size divided by this rate.
GRACE_S = 5.0
LEAST_BYTES_S = 32_768
# Most bytes of all bodies in memory, without the first 64 KiB of each, so that large batches do not block searches.
MOST_TOTAL_BYTES = 64_000_000
UNCOUNTED_BYTES = 65_536
# Seconds after the last large body: loading in batches must not cause page faults again with every batch.
TRIM_AFTER_S = 1.0


class Bodies:
    """Reads bodies within their bounds, and refuses types that their route does not take."""

    def __init__(self, most_bytes: int, instruments: Instruments) -> None:
        self.most_bytes = most_bytes
        self._instruments = instruments
        self._counted_bytes = 0
        self._trimmer = HeapTrimmer()

    async def read(self, scope: Scope, handling: Handling, receive: Receive, counted: "CountedBytes") -> bytes:
        """Reads the body of a request; `counted` is to be released when its work has ended.

        Raises BodyTooLarge, ClientGone, Overloaded, RequestTimeout or UnsupportedMedia.
        """
        # Open routes and probes take no body, whatever the method.
        takes_body = handling.scope != "open" and scope["path"] not in PROBES
        headers, most_bytes = headers_of(scope), self.most_bytes if takes_body else 0
        declared = headers.get("content-length", "0").strip()  # trailing blanks are not part of the value (RFC 9112, 5)
        if not declared.isdigit() or int(declared) > most_bytes:
            raise _too_large(most_bytes)
        if not most_bytes:
            if "transfer-encoding" in headers:  # it may be long in coming
                raise _too_large(0)
            return b""
        body = await self._read_in_time(receive, counted, most_bytes)
        # Any page may send a POST of plain text or of nothing to any address without asking first (CORS).
        if body or scope["method"] == "POST":
            _check_media(headers, handling)
        return body

    def release(self, counted: "CountedBytes") -> None:
        """Gives the memory of a body back."""
        self._counted_bytes -= counted.size
        if counted.size:
            self._trimmer.schedule()

    async def _read_in_time(self, receive: Receive, counted: "CountedBytes", most_bytes: int) -> bytes:
        try:
            async with asyncio.timeout(GRACE_S) as bound:
                return await self._read(receive, counted, most_bytes, bound)
        except TimeoutError as error:
            if not bound.expired():
                raise
            raise RequestTimeout(
                f"The body came too slowly; send it at {LEAST_BYTES_S // 1024} KB per second or more.", closes=True
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
        return BodyTooLarge("This route takes no body; send the request without one.")
    return BodyTooLarge(f"A body may have at most {most_bytes} bytes here; send a smaller one, or smaller batches.")


def _check_media(headers: Mapping[str, str], handling: Handling) -> None:
    media = headers.get("content-type", "").partition(";")[0].strip().lower()
    # A page of any site can send a form without asking first (CORS): only routes that declare it take one.
    form = media == "application/x-www-form-urlencoded" and handling.form
    if not form and media != "application/json" and not media.endswith("+json"):
        raise UnsupportedMedia("Send the body as JSON, with the header Content-Type: application/json.")
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise UnsupportedMedia("Send the body uncompressed, without Content-Encoding.")


async def run_until_disconnect(
    app: ASGIApp, scope: Scope, body: bytes, send: Send, is_answered: Callable[[], bool]
) -> None:
    """Runs the app and cancels it when the caller disconnects, which Starlette does not do. Then raises ClientGone.

    Our server reports a disconnect (WATCHES); under another one the app runs to its end.
    """
    handler = asyncio.current_task()
    assert handler is not None
    gone = asyncio.Event()
    replayed = False

    async def replay() -> Message:
        nonlocal replayed
        if not replayed:
            replayed = True
            return {"type": "http.request", "body": body, "more_body": False}
        await gone.wait()
        return {"type": "http.disconnect"}

    def leave() -> None:
        gone.set()
        if not is_answered():
            handler.cancel()

    watch: Callable[[Callable[[], None] | None], None] = scope.pop(WATCHES, lambda _: None)
    watch(leave)
    try:
        await app(scope, replay, send)
    except asyncio.CancelledError:
        if gone.is_set() and not is_answered():
            handler.uncancel()
            raise ClientGone("The caller hung up.") from None
        raise
    finally:
        watch(None)


class HeapTrimmer:
    """Schedules a trim after large bodies, on the event loop of the app that reads them."""

    def __init__(self) -> None:
        self._due: asyncio.TimerHandle | None = None

    def schedule(self) -> None:
        """Trims the heap `TRIM_AFTER_S` from now, unless called again before."""
        if self._due is not None:
            self._due.cancel()
        loop = asyncio.get_running_loop()
        self._due = loop.call_later(TRIM_AFTER_S, loop.run_in_executor, None, trim_heap)


def trim_heap() -> None:
    """Releases free pages of the heap. Does nothing if the C library lacks malloc_trim (musl, macOS)."""
    c = ctypes.CDLL(None)  # CDLL releases the GIL during a call
    if hasattr(c, "malloc_trim"):
        c.malloc_trim(0)
