"""Sends what the calls yield: `Client` blocks, `AsyncClient` awaits. Owns the connections, and decides nothing else."""

import asyncio
import copy
import functools
import os
import re
import ssl
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeAlias, TypeVar, cast, overload

import httpx

from retrieval_client import calls
from retrieval_client.answers import Document, FanOutReport
from retrieval_client.calls import SentDocument
from retrieval_client.exchange import Outcome, Request, RetrievalError, Steps
from retrieval_client.loading import MOST_IN_FLIGHT, Loading, LoadReport

SEARCH_MS, DEADLINE_MS = 2_000, 10_000  # of a search, as at a gateway, and of other calls
# Seconds for an answer to travel after the gateway's deadline, and to connect.
GRACE_S, CONNECT_S = 1.0, 5.0
# The most requests at once over one client; others wait for one of those to end.
MOST_CONNECTIONS = 100
# A gateway closes a connection after 5 idle seconds; a request that meets that is lost.
LIMITS = httpx.Limits(keepalive_expiry=4.0)
LATE = "no whole answer"

Repeating: TypeAlias = Callable[[RetrievalError, float], object]
A = TypeVar("A")
Answered = TypeVar("Answered", covariant=True)
Transport = TypeVar("Transport")
P = ParamSpec("P")


def _is_safe(url: httpx.URL) -> bool:
    try:
        loopback = ip_address(url.host).is_loopback
    except ValueError:
        loopback = url.host == "localhost"
    return url.scheme == "https" or loopback


def _arguments(request: Request, left_s: float) -> dict[str, Any]:
    most_s = left_s + GRACE_S
    headers = {"x-deadline-ms": str(max(1, int(left_s * 1000)))}
    if request.body is not None:
        headers["content-type"] = "application/json"
    if request.no_store:
        headers["cache-control"] = "no-store"
    if request.unit is not None:
        headers["x-unit-id"] = request.unit
    return {
        "method": request.method,
        "url": request.path,
        "content": request.body,
        "headers": headers,
        "timeout": httpx.Timeout(most_s, connect=min(CONNECT_S, most_s)),
    }


class Connecting(Generic[Transport]):
    """What both clients are opened with. Raises ValueError where the key would travel unencrypted, or is none."""

    _connect: Callable[[], None]  # each opens its own connections, with `_options`

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        ca_file: Path | str | None = None,
        deadline_ms: int | None = None,
        trust_plain: bool = False,
        repeating: Repeating | None = None,
        transport: Transport | None = None,
    ) -> None:
        if key is not None and not re.fullmatch(r"[!-~]+", key):  # httpx would show it in its error
            raise ValueError("the key is empty, or has white space or other characters that no key has")
        if key is not None and not trust_plain and not _is_safe(httpx.URL(url)):
            raise ValueError(
                f"the key would travel unencrypted to {url}: use https://, or trust_plain=True in your network"
            )
        self._deadline_ms, self._repeating = deadline_ms, repeating
        self._options: dict[str, Any] = {
            "base_url": url,
            "headers": {} if key is None else {"authorization": f"Bearer {key}"},
            "verify": True if ca_file is None else ssl.create_default_context(cafile=ca_file),
            "limits": LIMITS,
            # A proxy would read the key of plain HTTP. Over https it makes a tunnel (CONNECT) and reads nothing.
            "trust_env": httpx.URL(url).scheme == "https",
            "transport": transport,
        }
        self._connect()

    def within(self, deadline_ms: int) -> Self:
        """Returns this client with another deadline, over the same connections."""
        other = copy.copy(self)
        other._deadline_ms = deadline_ms
        return other

    def _tell(self, request: Request) -> None:
        if self._repeating is not None and request.error is not None:
            self._repeating(request.error, request.after_s)


class Blocking(Connecting[httpx.BaseTransport]):
    """The connections of a blocking client, and how it sends what a call yields."""

    def _connect(self) -> None:
        self._http, self._free = httpx.Client(**self._options), threading.Semaphore(MOST_CONNECTIONS)
        self._process = os.getpid()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def run(self, steps: Steps[A]) -> A:
        """Sends what a call yields, and returns its result. Raises RetrievalError."""
        try:
            request = next(steps)
            while True:
                self._tell(request)
                time.sleep(request.after_s)
                request = steps.send(self._outcome(request))
        except StopIteration as done:
            return cast(A, done.value)

    def _outcome(self, request: Request) -> Outcome:
        ends_at = time.monotonic() + request.timeout_s
        if self._process != os.getpid():  # forked: what came on these connections could be the parent's
            self._connect()
        if not self._free.acquire(timeout=request.timeout_s):
            return httpx.PoolTimeout(LATE, request=self._http.build_request(request.method, request.path))
        try:
            with self._http.stream(**_arguments(request, ends_at - time.monotonic())) as response:
                return _read(response, ends_at + GRACE_S)
        except (httpx.TransportError, httpx.DecodingError) as error:
            return error
        finally:
            self._free.release()


def _read(response: httpx.Response, ends_at: float) -> httpx.Response:
    """Returns an answer with its body. Raises ReadTimeout where that goes on arriving after its time."""
    parts = []
    for part in response.iter_bytes():
        if time.monotonic() > ends_at:
            raise httpx.ReadTimeout(LATE, request=response.request)
        parts.append(part)
    headers = httpx.Headers(response.headers)
    headers.pop("content-encoding", None)  # the parts are unpacked
    return httpx.Response(response.status_code, headers=headers, content=b"".join(parts), request=response.request)


class Awaiting(Connecting[httpx.AsyncBaseTransport]):
    """The connections of an awaiting client, and how it sends what a call yields."""

    def _connect(self) -> None:
        self._http, self._free = httpx.AsyncClient(**self._options), asyncio.Semaphore(MOST_CONNECTIONS)
        self._first: dict[str, asyncio.AbstractEventLoop] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        self._loop()
        await self._http.aclose()

    def _loop(self) -> asyncio.AbstractEventLoop:
        """Returns the running event loop. Raises RetrievalError where the first call was in another."""
        loop = asyncio.get_running_loop()
        if self._first.setdefault("loop", loop) is not loop:
            raise RetrievalError(
                "another-event-loop", "this client is of another event loop: make one in each, or use a blocking client"
            )
        return loop

    async def run(self, steps: Steps[A]) -> A:
        """Sends what a call yields, and returns its result. Raises RetrievalError."""
        try:
            request = next(steps)
            while True:
                self._tell(request)
                if request.after_s:
                    await asyncio.sleep(request.after_s)
                request = steps.send(await self._outcome(request))
        except StopIteration as done:
            return cast(A, done.value)

    async def _outcome(self, request: Request) -> Outcome:
        now = self._loop().time
        ends_at = now() + request.timeout_s
        try:
            async with asyncio.timeout_at(ends_at) as bound, self._free:
                bound.reschedule(ends_at + GRACE_S)
                return await self._http.request(**_arguments(request, ends_at - now()))
        except TimeoutError:
            return httpx.ReadTimeout(LATE, request=self._http.build_request(request.method, request.path))
        except (httpx.TransportError, httpx.DecodingError) as error:
            return error


class Call(Protocol[P, Answered]):
    """How a call is typed as a method: a blocking client's returns the answer, the other's is awaited."""

    @overload
    def __get__(self, client: Blocking, owner: type, /) -> Callable[P, Answered]: ...

    @overload
    def __get__(self, client: Awaiting, owner: type, /) -> Callable[P, Awaitable[Answered]]: ...


def method(steps: Callable[Concatenate[float, P], Steps[A]], default_ms: int = DEADLINE_MS) -> Call[P, A]:
    """Returns the method of a call, of either client. `default_ms`: for a client without a deadline."""

    @functools.wraps(steps)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        return self.run(steps((default_ms if self._deadline_ms is None else self._deadline_ms) / 1000, *args, **kwargs))

    return cast(Call[P, A], call)


class GatewayCalls:
    """The calls that both clients of a gateway have."""

    search = method(calls.search, SEARCH_MS)
    send_events = method(calls.send_events)
    pipelines = method(calls.pipelines)
    collections = method(calls.collections)
    collection = method(calls.collection)
    begin = method(calls.begin)
    publish = method(calls.publish)
    roll_back = method(calls.roll_back)
    discard = method(calls.discard)
    delete_collection = method(calls.delete_collection)
    update_metadata = method(calls.update_metadata)
    delete_documents = method(calls.delete_documents)
    get_documents = method(calls.get_documents)
    get_document = method(calls.get_document)
    documents_page = method(calls.documents_page)


class Client(GatewayCalls, Blocking):
    """Calls one gateway, and blocks. Threads may share it, and a process that was forked opens connections of its own.

    `key`: an API key. `ca_file`: the authority of the gateway's certificate. `deadline_ms`: how long a call may last,
    its repetitions and the wait for a connection included; an answer may arrive a second later. Without it a search has
    2 s and any other call 10 s. `trust_plain` allows a key over http:// to another machine. `repeating` is called
    before a request is sent again, with the error of the last one and the seconds until then.
    """

    def documents(self, collection: str) -> Iterator[Document]:
        """Yields all documents of the live generation. Raises RetrievalError where another takes its place."""
        after = generation = None
        while True:
            page = self.documents_page(collection, after, generation=generation)
            yield from page.documents
            after, generation = page.following, page.generation
            if after is None:
                return

    def load(
        self,
        collection: str,
        documents: Iterable[SentDocument],
        *,
        build: str | None = None,
        progress: Callable[[LoadReport], object] | None = None,
    ) -> LoadReport:
        """Sends any number of documents, whose ids differ, several batches at once, until every backend has them.

        Without a `build` they go to the live generation. `progress` is called after each batch. Raises the first error
        when the other batches in flight have ended.
        """
        loading = Loading(collection, build, progress)
        running: set[Future[list[FanOutReport]]] = set()

        def end(most: int) -> None:
            while len(running) > most:
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    running.remove(done)
                    loading.taken(done.result())

        with ThreadPoolExecutor(MOST_IN_FLIGHT) as pool:
            try:
                for batch in loading.batches(documents):
                    end(loading.in_flight - 1)
                    running.add(pool.submit(self.run, loading.send(batch)))
                end(0)
            finally:
                loading.ended = True
        return loading.report


class AsyncClient(GatewayCalls, Awaiting):
    """Calls one gateway, and awaits, in one event loop. The arguments are those of `Client`."""

    async def documents(self, collection: str) -> AsyncIterator[Document]:
        """Yields all documents of the live generation, as `Client.documents` does."""
        after = generation = None
        while True:
            page = await self.documents_page(collection, after, generation=generation)
            for document in page.documents:
                yield document
            after, generation = page.following, page.generation
            if after is None:
                return

    async def load(
        self,
        collection: str,
        documents: Iterable[SentDocument],
        *,
        build: str | None = None,
        progress: Callable[[LoadReport], object] | None = None,
    ) -> LoadReport:
        """Sends any number of documents, as `Client.load` does. Cancelled, it cancels the batches in flight."""
        loading = Loading(collection, build, progress)
        running: set[asyncio.Task[list[FanOutReport]]] = set()

        async def end(most: int) -> None:
            while len(running) > most:
                for done in (await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED))[0]:
                    running.remove(done)
                    loading.taken(done.result())

        try:
            for batch in loading.batches(documents):
                await end(loading.in_flight - 1)
                running.add(asyncio.create_task(self.run(loading.send(batch))))
                await asyncio.sleep(0)  # the batch is sent before the next one is made
            await end(0)
        except Exception:
            loading.ended = True
            await asyncio.gather(*running, return_exceptions=True)
            raise
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        return loading.report


class Reranker(Blocking):
    """Calls one re-ranker, and blocks. Threads may share it. The arguments are those of `Client`."""

    rerank = method(calls.rerank)


class AsyncReranker(Awaiting):
    """Calls one re-ranker, and awaits. The arguments are those of `Client`."""

    rerank = method(calls.rerank)
