"""Owns in-memory backends that follow the services' wire, and a gateway over them with faults on the way."""

import asyncio
import math
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal

import httpx
from fastapi import APIRouter, FastAPI

from gateway.app import build_app
from gateway.settings import DEFAULT_BACKENDS, BackendAddress, GatewaySettings
from services.chassis.app import create_app
from services.chassis.errors import AnswerTooLarge, BadInput, UnknownCollection
from services.chassis.instruments import Instruments
from services.chassis.probes import Readiness
from services.chassis.settings.service_settings import ServiceSettings
from services.contracts.collections import CollectionDeclaration, CollectionState, VectorState
from services.contracts.content_digest import ContentDigest
from services.contracts.documents import (
    DeleteReport,
    Document,
    FetchedDocuments,
    FetchRequest,
    IdsRequest,
    IndexReport,
    IndexRequest,
    ItemError,
)
from services.contracts.health import Check
from services.contracts.matches import CountRequest, Matches
from services.contracts.problem import Problem
from services.contracts.retrieval import BrowseAnswer, BrowseRequest, RetrievalAnswer, RetrievalRequest
from services.contracts.scored import Scored, in_rank_order
from services.lexical.document_collector import DocumentCollector, ReadOptions, beside_hits
from services.storage.fields import requirements_of
from services.storage.generation_checks import refuse_other_build
from services.storage.write_order import overtaken
from tests.support.filter_trees import passes
from tests.support.opened_client import opened_client
from tests.support.reranker_stub import RerankerStub
from tests.support.store_routes import STORE_ROUTES
from tests.support.wires import FixedEndpoints
from tests.support.word_overlap import cosine, trigrams, words

Fault = Literal["refused", "hung", "status-500", "status-503", "overloaded", "garbage", "html", "reset", "not-ours"]


@dataclass
class HeldGeneration:
    declaration: CollectionDeclaration
    model: str
    published: bool = False
    build: str | None = None
    published_at: float | None = None
    documents: dict[str, Document] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)


def passing(held: HeldGeneration, request: RetrievalRequest | BrowseRequest | CountRequest) -> list[Document]:
    requirements_of(request.filter, held.declaration.metadata)
    return [
        document
        for document in held.documents.values()
        if document.id not in request.exclude_ids
        and (request.filter is None or passes(request.filter, document.metadata))
    ]


class StoreStub:
    """A backend that stores documents in memory. Scores by word overlap (lexical; 0 is no hit) or trigram cosine."""

    def __init__(self, family: str, model: str = "1", stamp: Mapping[str, str] | None = None) -> None:
        self.stamp = stamp or {}  # what its stamps have beyond the model
        self.family = family
        self.model = model
        self.generations: dict[str, HeldGeneration] = {}
        self.refuse_ids: set[str] = set()
        self.asked: list[RetrievalRequest] = []
        self.fetched: list[FetchRequest] = []
        self.withheld: Collection[str] = ()  # documents that do not come with hits

    def held(self, generation: str) -> HeldGeneration:
        if generation not in self.generations:
            raise UnknownCollection(f"There is no collection {generation} here; begin it first.")
        return self.generations[generation]

    def state(self, generation: str) -> CollectionState:
        held = self.held(generation)
        count = len(held.documents)
        return CollectionState(
            generation=generation,
            published=held.published,
            documents=count,
            engine="memory",
            stamp={"model": held.model, **self.stamp},
            declaration=held.declaration,
            vectors=VectorState(vectors=count, indexed=0) if self.family == "dense" else None,
            build=held.build,
            published_at=held.published_at,
        )

    def begun(self, generation: str, declaration: CollectionDeclaration, build: str | None) -> HeldGeneration:
        return self.generations.setdefault(generation, HeldGeneration(declaration, self.model, build=build))

    def require_build(self, generation: str, build: str | None) -> HeldGeneration:
        held = self.held(generation)
        refuse_other_build(generation, held.build, build)
        return held

    def score(self, query: str, document: Document) -> float:
        if self.family == "lexical":
            return float(sum((words(query) & words(document.passage)).values()))
        return cosine(trigrams(query), trigrams(document.passage))

    def search(self, generation: str, request: RetrievalRequest) -> RetrievalAnswer:
        self.asked.append(request)
        held = self.held(generation)
        declared = [preset if isinstance(preset, str) else preset.name for preset in held.declaration.presets]
        if request.preset is not None and request.preset not in declared:
            raise BadInput(f"preset: '{request.preset}' is not declared; declared: {', '.join(declared)}.")
        found = [
            Scored(id=document.id, score=self.score(request.query, document)) for document in passing(held, request)
        ]
        found = [hit for hit in found if self.family != "lexical" or hit.score > 0]
        hits = tuple(in_rank_order(found)[: request.top])
        documents: tuple[Document, ...] = ()
        with suppress(AnswerTooLarge):
            if request.include:
                sent = [hit.id for hit in hits if hit.id not in self.withheld]
                documents = self.read(generation, sent, beside_hits(request.include)).documents
        return RetrievalAnswer(generation=generation, hits=hits, documents=documents)

    def read(self, generation: str, ids: Sequence[str], reading: ReadOptions) -> FetchedDocuments:
        documents = self.held(generation).documents
        collector = DocumentCollector(ids, reading)
        for identity in collector.ids:
            if identity in documents:
                parts = {part: getattr(documents[identity], part) for part in reading.include}
                collector.add(Document(id=identity, **parts))
        return collector.answer()

    def browse(self, generation: str, request: BrowseRequest) -> BrowseAnswer:
        if request.sort is not None:
            raise BadInput("sort: this store has no fields.")
        ids = sorted(document.id for document in passing(self.held(generation), request))
        return BrowseAnswer(ids=tuple(ids[: request.top]))

    def count(self, generation: str, request: CountRequest) -> Matches:
        """Counts all that a search finds; nothing by facets."""
        found = [one for one in passing(self.held(generation), request) if self.score(request.query, one) > 0]
        return Matches(total=len(found))

    def index(self, generation: str, batch: IndexRequest, version: int, build: str | None) -> IndexReport:
        held = self.require_build(generation, build)
        refused = [ItemError(id=d.id, reason="refused") for d in batch.documents if d.id in self.refuse_ids]
        late = [d.id for d in batch.documents if held.versions.get(d.id, 0) >= version]
        taken = [d for d in batch.documents if d.id not in self.refuse_ids and d.id not in late]
        unchanged = sum(held.documents.get(document.id) == document for document in taken)
        held.documents |= {document.id: document for document in taken}
        held.versions |= {document.id: version for document in taken}
        return IndexReport(
            indexed=len(taken) - unchanged,
            unchanged=unchanged,
            errors=(*refused, *map(overtaken, late)),
            latest_version=max((held.versions[one] for one in late), default=None),
        )

    def delete(self, generation: str, ids: IdsRequest, version: int, build: str | None) -> DeleteReport:
        held = self.require_build(generation, build)
        late = [one for one in ids.ids if held.versions.get(one, 0) >= version]
        timely = [one for one in ids.ids if one not in late]
        held.versions |= dict.fromkeys(timely, version)
        deleted = sum(held.documents.pop(one, None) is not None for one in timely)
        return DeleteReport(deleted=deleted, errors=tuple(map(overtaken, late)))

    def digest(self, generation: str) -> str:
        digest = ContentDigest()
        digest.add((one.id, one.content_hash) for one in self.held(generation).documents.values())
        return digest.hexdigest()

    def app(self) -> FastAPI:
        @asynccontextmanager
        async def opened() -> AsyncIterator[tuple[Sequence[APIRouter], Readiness]]:
            async def readiness() -> tuple[Check, ...]:
                return ()

            yield (STORE_ROUTES,), readiness

        app = create_app(self.family, ServiceSettings(port=0), Instruments(), opened)
        app.state.store = self
        return app


class FaultyTransport(httpx.AsyncBaseTransport):
    """The transport to one backend, with a fault or without.

    Runs each request in a task of its own, so that the backend's context variables (deadline, timings) do not reach
    the gateway, as between processes.
    """

    def __init__(self, app: FastAPI) -> None:
        self._inner = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        self.fault: Fault | None = None
        self.faults_left = math.inf
        self.delay_s = 0.0
        self.request_headers: list[httpx.Headers] = []  # of every request

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.request_headers.append(request.headers)
        await asyncio.sleep(self.delay_s)
        fault = self.fault if self.faults_left > 0 else None
        self.faults_left -= fault is not None
        match fault:
            case None:
                return await asyncio.create_task(self._inner.handle_async_request(request))
            case "refused":
                raise httpx.ConnectError("refused", request=request)
            case "reset":
                raise httpx.ReadError("reset", request=request)
            case "hung":
                await asyncio.sleep(3_600)
                raise AssertionError("nobody waits so long")
            case "status-500":
                return httpx.Response(500, request=request)
            case "status-503":
                return httpx.Response(503, text="<html>busy</html>", request=request)
            case "overloaded":
                return httpx.Response(429, headers={"retry-after": "1"}, request=request)
            case "garbage":
                return httpx.Response(200, content=b"\x00\xff{", request=request)
            case "not-ours":
                body = Problem(
                    type="urn:problem:stamp-mismatch", title="", status=409, detail="Made by another.", request_id="r"
                )
                return httpx.Response(409, text=body.model_dump_json(), request=request)
            case "html":
                return httpx.Response(200, text="<html>welcome</html>", request=request)


# Deadlines of searches over a fault. From 2.5 s on, the gateway reserves its maximum of 0.25 s, enough for a shared
# machine that stalls for 0.1 s.
PATIENCE_MS: Mapping[Fault | None, int] = {"hung": 2_500}


@dataclass
class Stack:
    """A gateway's client, and the backends behind the gateway."""

    client: httpx.AsyncClient
    lexical: StoreStub
    dense: StoreStub
    reranker: RerankerStub
    wires: dict[str, FaultyTransport]
    app: FastAPI

    async def search(self, query: str, pipeline: object = "hybrid-rerank", **more: object) -> httpx.Response:
        """Searches `demo`. The deadline is short only with a fault that makes the gateway wait."""
        patience = min(PATIENCE_MS.get(wire.fault, 10_000) for wire in self.wires.values())
        headers = {"x-deadline-ms": str(more.pop("deadline_ms", patience))}
        body = {"query": query, "pipeline": pipeline, **more}
        return await self.client.post("/v1/collections/demo/search", json=body, headers=headers)


def inline(*stages: object) -> dict[str, object]:
    return {"name": "mine", "stages": list(stages)}


DOCUMENTS: tuple[Mapping[str, object], ...] = (
    {"id": "apple", "title": "Apple", "text": "a round fruit that grows on trees", "metadata": {"kind": "fruit"}},
    {"id": "banana", "title": "Banana", "text": "a long yellow fruit", "metadata": {"kind": "fruit"}},
    {"id": "carrot", "title": "Carrot", "text": "an orange root", "metadata": {"kind": "root"}},
    {"id": "beet", "title": "Beet", "text": "a red root that is boiled", "metadata": {"kind": "root"}},
    {"id": "tree", "title": "Trees", "text": "trees grow slowly and bear fruit", "metadata": {"kind": "plant"}},
)
DECLARATION = {"presets": ["beir", "anserini-flat"], "metadata": {"kind": "keyword"}}


@asynccontextmanager
async def opened_stack(
    *,
    ingested: bool = True,
    faults: Mapping[str, Fault] | None = None,
    stores: Mapping[str, StoreStub] | None = None,
    rerankers: Mapping[str, RerankerStub] | None = None,
    documents: Sequence[Mapping[str, object]] = DOCUMENTS,
    **settings: object,
) -> AsyncIterator[Stack]:
    """Opens a gateway over two stores and a re-ranker, with these documents published as `demo` if `ingested`.

    `faults`, by backend, are set from the start. `stores` and `rerankers` are added. `settings` are the gateway's.
    """
    lexical, dense = StoreStub("lexical"), StoreStub("dense")
    rankers = {"reranker": RerankerStub(), **(rerankers or {})}
    held = {"lexical": lexical, "dense": dense, **(stores or {})}
    apps = {name: one.app() for name, one in (held | rankers).items()}
    families = {name: one.family for name, one in held.items()} | dict.fromkeys(rankers, "reranker")
    backends = DEFAULT_BACKENDS | {
        name: BackendAddress(family=family, url=f"http://{name}")
        for name, family in families.items()
        if name not in DEFAULT_BACKENDS
    }
    wires = {name: FaultyTransport(app) for name, app in apps.items()}
    for name, fault in (faults or {}).items():
        wires[name].fault = fault

    def endpoints_for(name: str, _: BackendAddress) -> FixedEndpoints:
        return FixedEndpoints(wires[name])

    configured = GatewaySettings.model_validate({"backends": backends, **settings})
    gateway = build_app(configured, endpoints_for)
    async with AsyncExitStack() as stack:
        for app in apps.values():
            await stack.enter_async_context(app.router.lifespan_context(app))
        client = await stack.enter_async_context(opened_client(gateway, "http://gateway", raises=False))
        if ingested:
            load = {"build": "first-load"}
            assert (
                await client.put("/v1/collections/demo", json={**DECLARATION, **load, "backends": list(held)})
            ).status_code == 200
            sent = await client.post("/v1/collections/demo/documents", json={"documents": documents, **load})
            assert sent.json()["complete"]
            assert (await client.post("/v1/collections/demo/publish", json=load)).is_success
        yield Stack(client, lexical, dense, rankers["reranker"], wires, gateway)
