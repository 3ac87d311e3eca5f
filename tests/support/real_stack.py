"""A gateway over a real lexical and a real dense service on disk (Qdrant Edge, hashing encoder), in this process."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
from fastapi import FastAPI

from gateway.app import build_app
from gateway.settings import BackendAddress, GatewaySettings
from services.dense.app import build_app as build_dense
from services.dense.settings import DenseSettings
from services.lexical.app import build_app as build_lexical
from services.lexical.settings import LexicalSettings
from tests.support.opened_client import opened_client
from tests.support.wires import FixedEndpoints

BACKENDS = {
    "lexical": BackendAddress(family="lexical", url="http://lexical"),
    "dense": BackendAddress(family="dense", url="http://dense"),
}


class Way(httpx.AsyncBaseTransport):
    """Transport to a service. Requests with the bytes of `hold` in method, path or body wait until the event is set."""

    def __init__(self, app: FastAPI) -> None:
        self.inner: httpx.AsyncBaseTransport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        self.hold: tuple[bytes, asyncio.Event] | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        sent = request.method.encode() + b" " + request.url.raw_path + request.content
        if self.hold is not None and self.hold[0] in sent:
            await self.hold[1].wait()
        # A task of its own, as in another process: the service's context must not reach the gateway's.
        return await asyncio.create_task(self.inner.handle_async_request(request))


@dataclass
class RealStack:
    """A client of the gateway, and one of each service."""

    client: httpx.AsyncClient
    lexical: httpx.AsyncClient
    dense: httpx.AsyncClient
    gateway: FastAPI
    into_gateway: Way  # for another client
    others: dict[str, httpx.AsyncClient] = field(default_factory=dict)
    ways: dict[str, Way] = field(default_factory=dict)

    async def post(self, path: str, **body: object) -> httpx.Response:
        return await self.client.post(f"/v1/collections/c{path}", json=body)

    async def begin(self, **body: object) -> httpx.Response:
        return await self.client.put("/v1/collections/c", json=body)

    async def send(self, documents: Sequence[Mapping[str, object]], **more: object) -> httpx.Response:
        return await self.post("/documents", documents=list(documents), **more)

    async def load(self, documents: Sequence[Mapping[str, object]] | None = None, **declared: object) -> None:
        """These documents, live, or 40 of a kind."""
        documents = numbered(40) if documents is None else documents
        assert (await self.begin(build="first", **declared)).status_code == 200
        assert (await self.send(documents, build="first")).json()["complete"]
        assert (await self.post("/publish", build="first", expected_documents=len(documents))).status_code == 200

    async def live(self) -> dict[str, int]:
        """The documents of the live generation by backend."""
        view = (await self.client.get("/v1/collections/c")).json()
        return {
            backend["backend"]: state["documents"]
            for backend in view["backends"]
            for state in backend["generations"]
            if state["generation"] == view["live"]
        }

    async def states(self, service: str) -> dict[str, dict[str, Any]]:
        """Returns a service's state of each generation."""
        client = {"lexical": self.lexical, "dense": self.dense, **self.others}[service]
        states = (await client.get("/v1/collections")).json()["collections"]
        return {state["generation"]: state for state in states}

    async def digests(self, generation: str) -> dict[str, str]:
        """Returns each service's digest of a generation."""
        answers = {}
        for name, client in (("lexical", self.lexical), ("dense", self.dense)):
            answer = await client.post(f"/v1/collections/{generation}/finish", json={})
            answers[name] = answer.json().get("digest", f"HTTP {answer.status_code}")
        return answers

    async def texts(self, ids: Sequence[str]) -> dict[str, str]:
        """Returns the texts of those documents that exist."""
        answer = await self.post("/documents/get", ids=list(ids))
        return {one["id"]: one["text"] for one in answer.json()["documents"]}


def numbered(count: int, text: str = "word") -> list[dict[str, object]]:
    return [{"id": f"d{number:02}", "text": f"{text} {number}"} for number in range(count)]


@asynccontextmanager
async def real_stack(
    directory: Path,
    clocks: Mapping[str, Callable[[], float]] | None = None,
    others: Mapping[str, str] = MappingProxyType({}),
    builders: Mapping[str, Callable[[DenseSettings, Callable[[], float]], FastAPI]] = MappingProxyType({}),
    **settings: object,
) -> AsyncIterator[RealStack]:
    """Opened, with nothing in it; `settings` are the gateway's, `clocks` those of services by name.

    `others`: families of further backends, by name; each is a dense service, whose routes all vector services share.
    `builders` make those with another model than that of the hashing encoder.
    """
    clocks = {"lexical": time.time, "dense": time.time, **(clocks or {})}
    lexical = build_lexical(LexicalSettings(directory=directory / "lexical"), clocks["lexical"])
    dense, *further = [
        builders.get(name, build_dense)(
            DenseSettings(directory=directory / name, encoder="hashing"), clocks.get(name, time.time)
        )
        for name in ("dense", *others)
    ]
    more = dict(zip(others, further, strict=True))
    ways = {"lexical": Way(lexical), "dense": Way(dense)} | {name: Way(app) for name, app in more.items()}
    backends = BACKENDS | {name: BackendAddress(family=one, url=f"http://{name}") for name, one in others.items()}
    pipelines = directory / "pipelines"
    pipelines.mkdir(exist_ok=True)
    (pipelines / "bm25.yaml").write_text("name: bm25\nstages: [{kind: retrieve, backend: lexical}]")
    configured = GatewaySettings.model_validate({"backends": backends, "pipelines": pipelines, **settings})
    gateway = build_app(configured, lambda name, _: FixedEndpoints(ways[name]))
    async with AsyncExitStack() as stack:
        lexical_client, dense_client, *clients, gateway_client = [
            await stack.enter_async_context(opened_client(app, "http://stack", raises=False))
            for app in (lexical, dense, *more.values(), gateway)
        ]
        named = dict(zip(more, clients, strict=True))
        yield RealStack(gateway_client, lexical_client, dense_client, gateway, Way(gateway), named, ways)
