"""Calls backends: one function for each route of the services, bounded by the caller's time, retried at most once."""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Literal, TypeVar
from urllib.parse import urlencode

from pydantic import SecretStr

from gateway.backends.failures import BackendFailed, as_problem
from gateway.backends.replica import Answer, Call, Parse, Peer, Replica, Value
from gateway.backends.resilience import RetryBudget, State, backoff_s
from gateway.families import FAMILIES, first_backends
from gateway.instruments import GatewayInstruments
from gateway.settings import BackendAddress
from services.chassis.background_tasks import Supervisor
from services.chassis.calls.sockets import CONNECTIONS
from services.chassis.calls.transport import Endpoints
from services.chassis.errors import InsufficientStorage, Unavailable
from services.contracts.base import Wire
from services.contracts.collections import CollectionDeclaration, CollectionState, CollectionStates
from services.contracts.documents import (
    DeleteReport,
    FetchedDocuments,
    FetchRequest,
    IdPage,
    IdPageRequest,
    IdsRequest,
    IndexReport,
    IndexRequest,
)
from services.contracts.explanation import ExplainAnswer, ExplainRequest
from services.contracts.matches import CountRequest, Matches
from services.contracts.rerank import ScoreAnswer, ScoreRequest, StoredScoreRequest
from services.contracts.retrieval import BrowseAnswer, BrowseRequest, RetrievalAnswer, RetrievalRequest
from services.contracts.vectors import VectorsAnswer, VectorsRequest

Result = TypeVar("Result")
EndpointsFor = Callable[[str, BackendAddress], Endpoints]

# As many calls as one failing replica can lose at once.
MOST_RETRIES = CONNECTIONS / 2
# Seconds between two resolutions of a name, and while it has no address.
RESOLVE_S = 5.0
UNRESOLVED_S = 1.0


class Backend:
    """Owns one backend: a replica for each address of its name, of which it chooses one a call, and its retry budget.

    A replica whose address has gone still ends its calls.
    """

    def __init__(
        self,
        name: str,
        address: BackendAddress,
        endpoints: Endpoints,
        connect_s: float,
        supervisor: Supervisor,
        instruments: GatewayInstruments,
        token: SecretStr | None = None,
    ) -> None:
        self.name = name
        self.family = address.family
        self._peer = Peer(name, address.url, connect_s, token)
        self._endpoints = endpoints
        self._supervisor = supervisor
        self._opened = instruments.breakers_opened.labels(name)
        self._failures = instruments.backend_failures
        instruments.breakers_open.labels(name).set_function(
            lambda: sum(replica.breaker.state != "closed" for replica in self._by_address.values())
        )
        self._by_address: dict[str, Replica] = {}
        self._leaving: list[Replica] = []
        self._turn = 0
        self._budget = RetryBudget(most=MOST_RETRIES)
        self._jitter = random.Random()
        self._average_s = 0.0

    async def open(self) -> None:
        """Resolves the replicas' addresses once, then keeps resolving them in the background."""
        with contextlib.suppress(OSError, TimeoutError):  # the background tries again
            async with asyncio.timeout(self._peer.connect_s):
                await self._look_up()
        self._supervisor.start("addresses", self._keep_looking_up)

    async def close(self) -> None:
        """Stops the background watches and closes all connections."""
        await asyncio.gather(*(replica.close() for replica in (*self._by_address.values(), *self._leaving)))

    @property
    def state(self) -> State:
        """State of the backend's breakers: closed while any replica answers, open while none does."""
        states = {replica.breaker.state for replica in self._by_address.values()}
        order: tuple[State, ...] = ("closed", "half-open")
        return next((state for state in order if state in states), "open")

    async def request(self, call: Call, answer: type[Answer]) -> Answer:
        """Sends a call and returns the parsed answer. Raises BackendFailed, at once while all breakers are open."""
        return await self._call_with_retry(call, answer.from_answer)

    async def send(self, call: Call) -> None:
        """Sends a call whose answer has no body. Raises BackendFailed."""
        await self._call_with_retry(call, bytes)

    async def poll(self, call: Call, answer: type[Answer]) -> Answer:
        """Sends a call even while breakers are open: background polls must notice when a backend returns. Retries once,
        on another replica. Raises BackendFailed."""
        first = self._for_poll()
        if first is None:
            raise self._unavailable()
        ends_at = time.monotonic() + call.timeout_s
        try:
            return await first.attempt(call, answer.from_answer, call.timeout_s)
        except BackendFailed as failure:
            other = self._for_poll(first)
            # A lone replica may just be busy: callers with more time can still wait for it.
            if other is not None and failure.reason == "timeout":
                first.mark_suspect()
            left_s = ends_at - time.monotonic()
            if other is None or left_s <= self._average_s:
                raise
        return await other.attempt(call, answer.from_answer, left_s)

    async def _call_with_retry(self, call: Call, parse: Parse[Value]) -> Value:
        # With a half-open breaker a replica gets a single call, which may fail: first a read, last a write.
        replica = self._chosen("first" if call.reads else "last")
        if replica is None:
            raise self._unavailable()
        ends_at = time.monotonic() + call.timeout_s
        self._budget.called()
        try:
            return await self._measured(replica, call, parse, call.timeout_s)
        except BackendFailed as failure:
            other = self._chosen("never", than=replica)
            wait_s = self._wait_before_retry(call, failure, replica, other)
            left_s = ends_at - time.monotonic()
            # No retry when the time left is below the average answer time.
            repeated = wait_s is not None and left_s > wait_s + self._average_s and self._budget.take()
            # For a lone replica only the final outcome counts: its address may stand for several replicas, one broken.
            if other is not None or not repeated:
                replica.failed(failure, reads=call.reads)
            if not repeated or wait_s is None:
                raise
        if wait_s:
            await asyncio.sleep(wait_s)
        second = other or replica
        try:
            return await self._measured(second, call, parse, ends_at - time.monotonic())
        except BackendFailed as failure:
            second.failed(failure, reads=call.reads)
            raise

    async def _measured(self, replica: Replica, call: Call, parse: Parse[Value], timeout_s: float) -> Value:
        started = time.monotonic()
        try:
            value = await replica.attempt(call, parse, timeout_s)
        except BackendFailed as failure:
            reason = "full" if failure.status == InsufficientStorage.status else failure.reason
            self._failures.labels(self.name, "read" if call.reads else "write", reason).inc()
            raise
        self._average_s += 0.1 * (time.monotonic() - started - self._average_s)
        return value

    def _wait_before_retry(
        self, call: Call, failure: BackendFailed, failed: Replica, other: Replica | None
    ) -> float | None:
        """Returns the seconds to wait before the one retry, or None for no retry.

        Never retries a timeout: the time is spent. Nor a refusal for overload: a search would hold its slot meanwhile,
        unseen by the limit on searches. Retries a write only if nothing was sent, on another replica.
        """
        if other is None and failed.breaker.state != "closed":
            return None
        may_repeat = call.reads and failure.reason in ("unreachable", "failed")
        if not may_repeat and (other is None or not failure.unsent):
            return None
        return 0.0 if other is not None else backoff_s(self._jitter)

    def _unavailable(self) -> BackendFailed:
        last = next((replica.last for replica in self._by_address.values() if replica.last is not None), None)
        if not self._by_address:
            return BackendFailed(self.name, "unreachable", "its name has no address; see GATEWAY_BACKENDS.")
        if last is None or self.state == "half-open":
            return BackendFailed(self.name, "unreachable", "not asked: it is being tried out after a failure.")
        return BackendFailed(self.name, last.reason, f"not asked: it failed a moment ago ({last.detail})")

    def _chosen(self, half_open: Literal["first", "last", "never"], than: Replica | None = None) -> Replica | None:
        """Returns the replica for a call, among equals the one with the fewest in flight, or None if every breaker
        refuses it. With `than`, it is another one, known to answer."""
        if than is None:
            replicas = self._round_robin()
        else:
            replicas = [node for node in self._round_robin() if node is not than and not node.suspect]
        ranked = [(place, node.in_flight, node) for node in replicas if (place := _rank(node, half_open)) is not None]
        ranked.sort(key=lambda item: item[:2])
        return next((node for *_, node in ranked if node.breaker.admit()), None)

    def _for_poll(self, than: Replica | None = None) -> Replica | None:
        """Returns the replica for a background poll, open breakers or not; `than` is the one already asked."""
        rest = [node for node in self._round_robin() if node is not than]
        return min(rest, key=lambda node: (node.breaker.state != "closed", node.suspect, node.in_flight), default=None)

    def _round_robin(self) -> list[Replica]:
        replicas = list(self._by_address.values())
        if len(replicas) > 1:
            self._turn = (self._turn + 1) % len(replicas)
            return replicas[self._turn :] + replicas[: self._turn]
        return replicas

    def _others_answer(self, replica: Replica) -> bool:
        others = (other for other in self._by_address.values() if other is not replica)
        return any(other.breaker.state == "closed" and not other.suspect for other in others)

    async def _keep_looking_up(self) -> None:
        while True:
            await asyncio.sleep(RESOLVE_S if self._by_address else UNRESOLVED_S)
            with contextlib.suppress(OSError):  # the previous addresses are kept
                await self._look_up()

    async def _look_up(self) -> None:
        addresses = await self._endpoints.addresses()
        if not addresses:
            return
        for address in [known for known in self._by_address if known not in addresses]:
            self._leaving.append(self._by_address.pop(address))
        for address in addresses:
            if address not in self._by_address:
                calls, liveness = self._endpoints.transport(address), self._endpoints.transport(address)
                peer = replace(self._peer, replica=address)
                replica = Replica(peer, calls, liveness, self._others_answer, self._supervisor, self._opened)
                self._by_address[address] = replica
        self._turn = 0
        for replica in [left for left in self._leaving if not left.in_flight]:
            self._leaving.remove(replica)
            await replica.close()


def _rank(replica: Replica, half_open: Literal["first", "last", "never"]) -> int | None:
    if replica.breaker.state == "closed":
        return 2 if replica.suspect else 1
    if replica.breaker.state == "half-open" and half_open != "never":
        return 0 if half_open == "first" else 3
    return None


class Backends:
    """All backends. `storing` are those that can hold collections, `by_default` the names of those that hold one that
    names no backends, `added` of those that a new one names beside them; the first that gives documents is the document
    store, which holds every collection."""

    def __init__(self, backends: Mapping[str, Backend]) -> None:
        self._by_name = dict(backends)
        self.storing = tuple(backend for backend in backends.values() if FAMILIES[backend.family].retrieves)
        families = {store.name: store.family for store in self.storing}
        self.by_default = first_backends(families, lambda family: family.by_default)
        self.added = first_backends(families, lambda family: family.added)
        self.document_store = next((store for store in self.storing if FAMILIES[store.family].document_store), None)

    def __getitem__(self, name: str) -> Backend:
        return self._by_name[name]

    def named(self, names: Iterable[str]) -> tuple[Backend, ...]:
        """Returns these storing backends, in their order. Raises Unavailable if one is not among them."""
        wanted = frozenset(names)
        backends = tuple(backend for backend in self.storing if backend.name in wanted)
        if unknown := wanted.difference(backend.name for backend in backends):
            raise Unavailable(
                f"The collection also lives on {', '.join(sorted(unknown))}, which GATEWAY_BACKENDS of this gateway "
                "does not name as a storing backend: add it there."
            )
        return backends


async def on_each(
    backends: Iterable[Backend], action: Callable[[Backend], Awaitable[Result]]
) -> Sequence[tuple[Backend, Result | BackendFailed]]:
    """Returns each backend with its result or its failure. Raises the first problem if all of them failed."""

    async def result_of(backend: Backend) -> tuple[Backend, Result | BackendFailed]:
        try:
            return backend, await action(backend)
        except BackendFailed as failure:
            return backend, failure

    results = await asyncio.gather(*(result_of(backend) for backend in backends))
    failures = [result for _, result in results if isinstance(result, BackendFailed)]
    if failures and len(failures) == len(results):
        raise as_problem(failures[0])
    return results


async def on_all(backends: Iterable[Backend], action: Callable[[Backend], Awaitable[Result]]) -> dict[str, Result]:
    """Returns the results by backend. Raises the first problem once all calls have ended."""
    results = await on_each(backends, action)
    for _, result in results:
        if isinstance(result, BackendFailed):
            raise as_problem(result) from result
    return {backend.name: result for backend, result in results if not isinstance(result, BackendFailed)}


@asynccontextmanager
async def open_backends(
    addresses: Mapping[str, BackendAddress],
    endpoints_for: EndpointsFor,
    connect_s: float,
    supervisor: Supervisor,
    instruments: GatewayInstruments,
    token: SecretStr | None = None,
) -> AsyncIterator[Backends]:
    """Opens all backends, to which `token` is sent; closes their connections at the end of the block."""
    backends = {
        name: Backend(name, address, endpoints_for(name, address), connect_s, supervisor, instruments, token)
        for name, address in addresses.items()
    }
    try:
        await asyncio.gather(*(backend.open() for backend in backends.values()))
        yield Backends(backends)
    finally:
        await asyncio.gather(*(backend.close() for backend in backends.values()))


def _collection_path(generation: str, action: str = "", **parameters: str | int | None) -> str:
    """Returns the URL path of a generation. Of the query parameters those that are None are left out."""
    query = urlencode({name: value for name, value in parameters.items() if value is not None})
    return f"/v1/collections/{generation}{action}{'?' if query else ''}{query}"


async def _read(
    backend: Backend, generation: str, action: str, request: Wire, answer: type[Answer], timeout_s: float
) -> Answer:
    return await backend.request(Call("POST", _collection_path(generation, action), timeout_s, request, True), answer)


async def search(backend: Backend, generation: str, request: RetrievalRequest, timeout_s: float) -> RetrievalAnswer:
    """Retrieves the best documents for a query."""
    return await _read(backend, generation, "/search", request, RetrievalAnswer, timeout_s)


async def browse(backend: Backend, generation: str, request: BrowseRequest, timeout_s: float) -> BrowseAnswer:
    """Lists the ids of documents in an order that the request asks for."""
    return await _read(backend, generation, "/browse", request, BrowseAnswer, timeout_s)


async def count(backend: Backend, generation: str, request: CountRequest, timeout_s: float) -> Matches:
    """Counts the documents that a lexical search without a cut would return."""
    return await _read(backend, generation, "/count", request, Matches, timeout_s)


async def explain(backend: Backend, generation: str, request: ExplainRequest, timeout_s: float) -> ExplainAnswer:
    """Returns what in each document matched the query."""
    return await _read(backend, generation, "/explain", request, ExplainAnswer, timeout_s)


async def score(
    backend: Backend, request: ScoreRequest | StoredScoreRequest, timeout_s: float, client: str
) -> ScoreAnswer:
    """Scores passages, or documents whose vectors the backend has stored, for the query of a client."""
    return await backend.request(Call("POST", "/v1/score", timeout_s, request, True, client), ScoreAnswer)


async def fetch_documents(
    backend: Backend, generation: str, request: FetchRequest, timeout_s: float
) -> FetchedDocuments:
    """Fetches documents by id from the document store."""
    return await _read(backend, generation, "/documents/get", request, FetchedDocuments, timeout_s)


async def list_ids(backend: Backend, generation: str, request: IdPageRequest, timeout_s: float) -> IdPage:
    """Returns a page of the ids that the document store has."""
    return await _read(backend, generation, "/documents/ids", request, IdPage, timeout_s)


async def fetch_vectors(backend: Backend, generation: str, request: VectorsRequest, timeout_s: float) -> VectorsAnswer:
    """Fetches the vectors that a backend has stored of documents."""
    return await _read(backend, generation, "/documents/vectors", request, VectorsAnswer, timeout_s)


async def list_generations(backend: Backend, timeout_s: float) -> CollectionStates:
    """Lists every generation of the backend, even while its breaker is open."""
    return await backend.poll(Call("GET", "/v1/collections", timeout_s, reads=True), CollectionStates)


# `build` is the build mark that the generation had at the last poll. If it has since been removed and begun again for
# another build, the service refuses the call. None skips the check.


async def declare(
    backend: Backend,
    generation: str,
    declaration: CollectionDeclaration,
    build: str | None,
    owner: str | None,
    timeout_s: float,
) -> CollectionState:
    """Creates a generation for a build, or checks that the existing one is declared the same."""
    path = _collection_path(generation, build=build, owner=owner)
    return await backend.request(Call("PUT", path, timeout_s, declaration), CollectionState)


async def index(
    backend: Backend, generation: str, batch: IndexRequest, version: int, build: str | None, timeout_s: float
) -> IndexReport:
    """Indexes a batch. Idempotent by id, but never retried here once sent: the caller sends it again."""
    path = _collection_path(generation, "/documents", version=version, build=build)
    return await backend.request(Call("POST", path, timeout_s, batch), IndexReport)


async def delete(
    backend: Backend, generation: str, ids: IdsRequest, version: int, build: str | None, timeout_s: float
) -> DeleteReport:
    """Deletes documents by id."""
    path = _collection_path(generation, "/documents/delete", version=version, build=build)
    return await backend.request(Call("POST", path, timeout_s, ids), DeleteReport)


async def finish(backend: Backend, generation: str, build: str | None, timeout_s: float) -> CollectionState:
    """Refreshes, merges, waits for vector indexes and returns the digest. Repeating the call resumes the work."""
    path = _collection_path(generation, "/finish", build=build)
    return await backend.request(Call("POST", path, timeout_s), CollectionState)


async def publish(
    backend: Backend, generation: str, build: str | None, publication: int, timeout_s: float
) -> CollectionState:
    """Publishes a generation in place of the one before."""
    path = _collection_path(generation, "/publish", build=build, publication=publication)
    return await backend.request(Call("POST", path, timeout_s), CollectionState)


async def remove(
    backend: Backend, generation: str, build: str | None, timeout_s: float, *, keep_published: bool = False
) -> None:
    """Removes a generation; with `keep_published` only if it is not published."""
    path = _collection_path(generation, build=build, keep_published="true" if keep_published else None)
    await backend.send(Call("DELETE", path, timeout_s))
