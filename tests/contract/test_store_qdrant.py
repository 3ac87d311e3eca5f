"""The Qdrant store keeps the promises of VectorStore on the client's own in-process engine, and says what went wrong
with a server in sentences. The same suite runs on a server in tests/integration/test_store_qdrant_server.py."""

import asyncio
import inspect
import pkgutil
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import httpx
import numpy as np
import pytest
import qdrant_client
from fastapi import FastAPI
from pydantic import SecretStr
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from services.chassis.errors import (
    DeadlineExceeded,
    Overloaded,
    ProblemError,
    StampMismatch,
    Unavailable,
    UnknownCollection,
    UpstreamFailed,
)
from services.chassis.settings.configuration import ConfigurationError
from services.contracts.retrieval import DEFAULT_BEAM
from services.storage.representation import MultiVector
from services.vectorstore.qdrant_connection import QdrantClients, QdrantServer, qdrant_errors
from services.vectorstore.store import VectorQuery
from services.vectorstore.store_qdrant import QdrantStore
from tests.contract.token_vector_store import TokenVectorStoreSuite
from tests.contract.vector_store import VectorStoreSuite
from tests.support.certificates import Certificates
from tests.support.qdrant_double import emptied, qdrant_double
from tests.support.vectors import SPEC, axis, point, unit_rows

pytestmark = pytest.mark.filterwarnings(
    "ignore:Payload indexes have no effect", "ignore:Api key is used with an insec", "ignore:Local mode performs exact"
)


@pytest.fixture(scope="module")
def engine() -> AsyncQdrantClient:
    return AsyncQdrantClient(location=":memory:")


@pytest.fixture(scope="module")
def server() -> FastAPI:
    return qdrant_double()


def connect(server: QdrantServer) -> QdrantStore:
    return QdrantStore(QdrantClients.of(server))


@pytest.fixture(scope="module")
def client(server: FastAPI) -> AsyncQdrantClient:
    transport = httpx.ASGITransport(app=server)
    return AsyncQdrantClient(url="http://qdrant", transport=transport, check_compatibility=False)


@pytest.fixture(scope="module")
def shared() -> QdrantStore:
    engine = AsyncQdrantClient(location=":memory:")
    return QdrantStore(QdrantClients(engine, engine))


@pytest.mark.integration
class TestTokensInProcess(TokenVectorStoreSuite):
    """Every promise about token vectors, on the client's in-process engine."""

    @pytest.fixture
    def store(self, shared: QdrantStore) -> QdrantStore:
        return shared


@pytest.mark.integration
class TestOverRest(VectorStoreSuite):
    """Every promise, with the requests and answers of the REST interface in between."""

    @pytest.fixture
    async def store(self, server: FastAPI, client: AsyncQdrantClient) -> AsyncIterator[QdrantStore]:
        yield QdrantStore(QdrantClients(client, client))
        await emptied(server.state.engine)


async def test_the_beam_is_the_hnsw_ef_of_a_search_at_every_depth_and_an_exact_search_has_none() -> None:
    server = qdrant_double()
    transport = httpx.ASGITransport(app=server)
    client = AsyncQdrantClient(url="http://qdrant", transport=transport, check_compatibility=False)
    store = QdrantStore(QdrantClients(client, client))
    await store.create(SPEC)
    for query in (VectorQuery(axis(1.0), top=1), VectorQuery(axis(1.0), top=200, beam=300)):
        await store.search("notes@1", query)
    await store.search("notes@1", VectorQuery(axis(1.0), top=200, exact=True))
    assert [(params.hnsw_ef, params.exact) for params in server.state.searches] == [
        (DEFAULT_BEAM, False),
        (300, False),
        (None, True),
    ]
    await store.close()


@pytest.mark.integration  # takes seconds
async def test_token_vectors_are_sent_in_requests_that_a_server_takes() -> None:
    largest = 0

    async def measure(request: httpx.Request) -> None:
        nonlocal largest
        largest = max(largest, len(await request.aread()))

    transport = httpx.ASGITransport(app=qdrant_double())
    client = AsyncQdrantClient(
        url="http://qdrant", transport=transport, check_compatibility=False, event_hooks={"request": [measure]}
    )
    store = QdrantStore(QdrantClients(client, client))
    await store.create(replace(SPEC, representation=MultiVector(128)))
    random = np.random.default_rng(3)
    await store.upsert("notes@1", [point(str(one), unit_rows(random, 3_000, 128)) for one in range(5)])
    assert (await store.counts("notes@1")).documents == 5
    assert 5_000_000 < largest < 32_000_000
    await store.close()


async def test_a_collection_of_others_is_refused() -> None:
    client = AsyncQdrantClient(location=":memory:")
    vectors = models.VectorParams(size=8, distance=models.Distance.DOT)
    await client.create_collection("dense.notes@1", vectors_config=vectors)
    with pytest.raises(StampMismatch, match="DENSE_PREFIX"):
        await QdrantStore(QdrantClients(client, client), prefix="dense.").create(SPEC)
    await client.close()


def response(status: int, headers: dict[str, str] | None = None) -> httpx.Response:
    return httpx.Response(status, headers=headers or {}, json={"status": {"error": "said the server"}, "time": 0.0})


def hung(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadTimeout("hung", request=request)


def refused(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused", request=request)


FAULTS: dict[str, tuple[Callable[[httpx.Request], httpx.Response], type[ProblemError], str]] = {
    "nothing there": (lambda _: response(404), UnknownCollection, "notes@1"),
    "no key": (lambda _: response(401), UpstreamFailed, "QDRANT_API_KEY"),
    "a key that may not": (lambda _: response(403), UpstreamFailed, "QDRANT_API_KEY"),
    "too many requests": (lambda _: response(429), Overloaded, "more requests"),
    "too many, with a time": (lambda _: response(429, {"retry-after": "7"}), Overloaded, "said the server"),
    "too many, with nonsense": (lambda _: response(429, {"retry-after": "soon"}), UpstreamFailed, "Retry-After"),
    "a broken server": (lambda _: response(500), UpstreamFailed, "HTTP 500"),
    "a server that starts": (lambda _: response(503), Unavailable, "try again"),
    "a bad request": (lambda _: response(400), UpstreamFailed, "HTTP 400"),
    "an HTML page": (lambda _: httpx.Response(200, text="<html>"), UpstreamFailed, "could not be used"),
    "an empty result": (lambda _: httpx.Response(200, json={"result": None}), UpstreamFailed, "could not be"),
    "a refused connection": (refused, Unavailable, "QDRANT_URL"),
    "no answer": (hung, DeadlineExceeded, "X-Deadline-Ms"),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_what_a_server_does_wrong_is_said_in_a_sentence(name: str) -> None:
    handler, problem, said = FAULTS[name]
    transport = httpx.MockTransport(handler)
    client = AsyncQdrantClient(url="http://qdrant", transport=transport, check_compatibility=False)
    store = QdrantStore(QdrantClients(client, client))
    with pytest.raises(problem, match=said) as raised:
        await store.search("notes@1", VectorQuery(axis(1.0), top=1))
    assert type(raised.value) is problem
    assert not (await store.ready()).ok
    await store.close()


def exceptions_of_the_client() -> set[type[Exception]]:
    """Every exception class that any module of qdrant-client defines."""
    found: set[type[Exception]] = set()
    for module in pkgutil.walk_packages(qdrant_client.__path__, "qdrant_client."):
        try:
            loaded = import_module(module.name)
        except ImportError:  # needs an extra that we do not install
            continue
        for _, value in inspect.getmembers(loaded, inspect.isclass):
            if issubclass(value, Exception) and value.__module__.startswith("qdrant_client"):
                found.add(value)
    return found


MADE_OF: dict[type[Exception], Callable[[], Exception]] = {
    UnexpectedResponse: lambda: UnexpectedResponse(500, "broken", b"{}", httpx.Headers()),
    ResponseHandlingException: lambda: ResponseHandlingException(ValueError("nonsense")),
    ResourceExhaustedResponse: lambda: ResourceExhaustedResponse("full", 3),
}


def test_every_exception_of_the_client_is_a_problem() -> None:
    found = exceptions_of_the_client()
    assert set(MADE_OF) <= found
    for kind in found:
        error = MADE_OF[kind]() if kind in MADE_OF else kind("unforeseen")
        with pytest.raises(ProblemError) as raised, qdrant_errors("notes@1"):
            raise error
        assert raised.value.__cause__ is error
        assert raised.value.status in (429, 502)


async def listening(answer: bytes | None) -> asyncio.Server:
    """A server on a free port that answers everything with `answer`, or never."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        if answer is not None:
            writer.write(answer)
            await writer.drain()
            writer.close()
        else:
            await reader.read()  # until the caller gives up
            writer.close()

    return await asyncio.start_server(handle, "127.0.0.1", 0)


def port_of(server: asyncio.Server) -> int:
    return int(server.sockets[0].getsockname()[1])


async def test_a_server_that_never_answers_is_late_by_our_own_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    server = await listening(None)
    monkeypatch.setattr("services.chassis.deadlines.DEFAULT_MS", 200)
    store = connect(QdrantServer(f"http://127.0.0.1:{port_of(server)}"))
    start = asyncio.get_running_loop().time()
    with pytest.raises(DeadlineExceeded):
        await store.spec("notes@1")
    assert asyncio.get_running_loop().time() - start < 0.5
    await store.close()
    server.close()


async def test_a_server_that_is_not_there_is_unavailable_at_once() -> None:
    server = await listening(None)
    port = port_of(server)
    server.close()
    await server.wait_closed()
    store = connect(QdrantServer(f"http://127.0.0.1:{port}"))
    with pytest.raises(Unavailable, match="QDRANT_URL") as raised:
        await store.spec("notes@1")
    ready = await store.ready()
    assert not ready.ok
    # Callers read the first, and anybody /readyz: neither is told where the store is.
    assert [detail for detail in (raised.value.detail, ready.detail) if str(port) in detail] == []
    await store.close()


async def test_the_key_goes_out_as_a_header_and_connections_are_kept() -> None:
    seen: list[bytes] = []
    connections = 0
    body = b'{"result": {"aliases": []}, "status": "ok", "time": 0.0}'

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while head := await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b"":
            seen.append(head)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body))
            writer.write(body)
            await writer.drain()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    store = connect(QdrantServer(f"http://127.0.0.1:{port_of(server)}", api_key=SecretStr("s3cret")))
    for _ in range(3):
        assert await store.published() == {}
    assert (connections, len(seen)) == (1, 3)
    assert b"api-key: s3cret" in seen[0]
    await store.close()
    server.close()


def test_a_ca_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(ConfigurationError, match="QDRANT_CA_FILE"):
        connect(QdrantServer("https://127.0.0.1:1", ca_file=tmp_path / "ca.pem"))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_certificate_of_another_host_gets_no_key(host: str, tmp_path: Path) -> None:
    """Another service of the same stack has one of the same authority."""
    certificates, sent = Certificates(tmp_path), b""
    pair = certificates.issue("dense", "10.0.0.7")

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        sent += await reader.read()
        writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    context.set_alpn_protocols(["h2", "http/1.1"])
    async with await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context) as server:
        url = f"https://{host}:{port_of(server)}"
        store = connect(QdrantServer(url, api_key=SecretStr("s3cret"), ca_file=certificates.ca_file))
        with pytest.raises(Unavailable, match="QDRANT_CA_FILE"):
            await store.spec("notes@1")
        await store.close()
    assert sent == b""
