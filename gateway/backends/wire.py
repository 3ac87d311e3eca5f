"""Owns the backends by name and family, and the calls to them: one function for each route of the services."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from urllib.parse import urlencode

from pydantic import SecretStr

from gateway.backends.downstream import Backend
from gateway.backends.exchange import Call
from gateway.backends.transport import Endpoints
from gateway.families import FAMILIES
from gateway.settings import BackendAddress
from services.chassis.background_tasks import Supervisor
from services.chassis.instruments import Instruments
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
    """All backends. `storing` are those that hold collections; the first that gives documents is the document store."""

    def __init__(self, backends: Mapping[str, Backend]) -> None:
        self._by_name = dict(backends)
        self.storing = tuple(backend for backend in backends.values() if FAMILIES[backend.family].retrieves)
        self.document_store = next(
            (backend for backend in self.storing if FAMILIES[backend.family].document_store), None
        )

    def __getitem__(self, name: str) -> Backend:
        return self._by_name[name]


@asynccontextmanager
async def open_backends(
    addresses: Mapping[str, BackendAddress],
    endpoints_for: EndpointsFor,
    connect_s: float,
    supervisor: Supervisor,
    instruments: Instruments,
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


def _collection_path(generation: str, action: str = "", **asked: str | int | None) -> str:
    """Returns the URL path of a generation. `asked` are query parameters; those that are None are left out."""
    query = urlencode({name: value for name, value in asked.items() if value is not None})
    return f"/v1/collections/{generation}{action}{'?' if query else ''}{query}"


async def search(backend: Backend, generation: str, request: RetrievalRequest, timeout_s: float) -> RetrievalAnswer:
    """Retrieves the best documents for a query."""
    return await backend.request(
        Call("POST", _collection_path(generation, "/search"), timeout_s, request, reads=True), RetrievalAnswer
    )


async def score(backend: Backend, request: ScoreRequest, timeout_s: float) -> ScoreAnswer:
    """Scores passages for a query."""
    return await backend.request(Call("POST", "/v1/score", timeout_s, request, reads=True), ScoreAnswer)


async def fetch_documents(
    backend: Backend, generation: str, request: FetchRequest, timeout_s: float
) -> FetchedDocuments:
    """Fetches documents by id from the document store."""
    return await backend.request(
        Call("POST", _collection_path(generation, "/documents/get"), timeout_s, request, reads=True), FetchedDocuments
    )


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
    return await backend.request(
        Call("POST", _collection_path(generation, "/finish", build=build), timeout_s), CollectionState
    )


async def publish(
    backend: Backend, generation: str, build: str | None, publication: int, timeout_s: float
) -> CollectionState:
    """Publishes a generation in place of the one that was published before, as this publication of its collection.

    A service of a release without numbers ignores the number.
    """
    path = _collection_path(generation, "/publish", build=build, publication=publication)
    return await backend.request(Call("POST", path, timeout_s), CollectionState)


async def remove(
    backend: Backend, generation: str, build: str | None, timeout_s: float, *, keep_published: bool = False
) -> None:
    """Removes a generation; with `keep_published` only if it is not published."""
    path = _collection_path(generation, build=build, keep_published="true" if keep_published else None)
    await backend.send(Call("DELETE", path, timeout_s))
