"""The backends by name and family, and what can be asked of them (the services' wire)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from urllib.parse import urlencode

from gateway.downstream import Backend
from gateway.exchange import Call
from gateway.families import FAMILIES
from gateway.settings import BackendAddress
from gateway.sockets import Endpoints
from services.chassis.supervised import Supervisor
from services.contracts.collections import CollectionDeclaration, CollectionState, CollectionStates
from services.contracts.documents import (
    DeleteReport,
    FetchedDocuments,
    FetchRequest,
    IdsRequest,
    IndexReport,
    IndexRequest,
)
from services.contracts.rerank import ScoreAnswer, ScoreRequest
from services.contracts.retrieval import RetrievalAnswer, RetrievalRequest

EndpointsFor = Callable[[str, BackendAddress], Endpoints]


class Backends:
    """All backends. The storing ones hold collections; the first one that gives documents is the document store."""

    def __init__(self, backends: Mapping[str, Backend]) -> None:
        self._by_name = dict(backends)
        self.storing = tuple(backend for backend in backends.values() if FAMILIES[backend.family].retrieves)
        self.document_store = next(
            (backend for backend in self.storing if FAMILIES[backend.family].document_store), None
        )
        self.families = {name: FAMILIES[backend.family] for name, backend in backends.items()}

    def __getitem__(self, name: str) -> Backend:
        return self._by_name[name]


@asynccontextmanager
async def opened_backends(
    addresses: Mapping[str, BackendAddress], endpoints_for: EndpointsFor, connect_s: float, supervisor: Supervisor
) -> AsyncIterator[Backends]:
    """All backends with their connections, which are closed at the end."""
    backends = {
        name: Backend(name, address, endpoints_for(name, address), connect_s, supervisor)
        for name, address in addresses.items()
    }
    try:
        await asyncio.gather(*(backend.open() for backend in backends.values()))
        yield Backends(backends)
    finally:
        await asyncio.gather(*(backend.close() for backend in backends.values()))


def _path(generation: str, action: str = "", **asked: str | int | None) -> str:
    """`asked` are query parameters; those that are None are left out."""
    query = urlencode({name: value for name, value in asked.items() if value is not None})
    return f"/v1/collections/{generation}{action}{'?' if query else ''}{query}"


async def search(backend: Backend, generation: str, request: RetrievalRequest, timeout_s: float) -> RetrievalAnswer:
    """One retrieval."""
    return await backend.ask(
        Call("POST", _path(generation, "/search"), timeout_s, request, reads=True), RetrievalAnswer
    )


async def score(backend: Backend, request: ScoreRequest, timeout_s: float) -> ScoreAnswer:
    """One score a passage."""
    return await backend.ask(Call("POST", "/v1/score", timeout_s, request, reads=True), ScoreAnswer)


async def documents(backend: Backend, generation: str, request: FetchRequest, timeout_s: float) -> FetchedDocuments:
    """Documents by id, from the document store."""
    return await backend.ask(
        Call("POST", _path(generation, "/documents/get"), timeout_s, request, reads=True), FetchedDocuments
    )


async def held(backend: Backend, timeout_s: float) -> CollectionStates:
    """Every generation that the backend holds; asked past the breaker."""
    return await backend.look(Call("GET", "/v1/collections", timeout_s, reads=True), CollectionStates)


# `build` marks whose build the generation was when we looked: removed and begun again by somebody else since, it
# refuses what was meant for its predecessor. None asks for none.


async def declare(
    backend: Backend, generation: str, declaration: CollectionDeclaration, build: str | None, timeout_s: float
) -> CollectionState:
    """Makes a generation for a build, or checks that the one there is the same."""
    return await backend.ask(Call("PUT", _path(generation, build=build), timeout_s, declaration), CollectionState)


async def index(
    backend: Backend, generation: str, batch: IndexRequest, version: int, build: str | None, timeout_s: float
) -> IndexReport:
    """A batch in; idempotent by id, but never repeated by us: it is the caller's to send again."""
    path = _path(generation, "/documents", version=version, build=build)
    return await backend.ask(Call("POST", path, timeout_s, batch), IndexReport)


async def delete(
    backend: Backend, generation: str, ids: IdsRequest, version: int, build: str | None, timeout_s: float
) -> DeleteReport:
    """Documents out, by id."""
    path = _path(generation, "/documents/delete", version=version, build=build)
    return await backend.ask(Call("POST", path, timeout_s, ids), DeleteReport)


async def finish(backend: Backend, generation: str, build: str | None, timeout_s: float) -> CollectionState:
    """Refreshes, merges, waits for vector indexes, tells the digest; goes on where it was when asked again."""
    return await backend.ask(Call("POST", _path(generation, "/finish", build=build), timeout_s), CollectionState)


async def publish(backend: Backend, generation: str, build: str | None, timeout_s: float) -> CollectionState:
    """Makes this generation the published one of its name."""
    return await backend.ask(Call("POST", _path(generation, "/publish", build=build), timeout_s), CollectionState)


async def remove(
    backend: Backend, generation: str, build: str | None, timeout_s: float, *, keep_published: bool = False
) -> None:
    """Removes a generation; with `keep_published` only if searches do not see it."""
    path = _path(generation, build=build, keep_published="true" if keep_published else None)
    await backend.tell(Call("DELETE", path, timeout_s))
