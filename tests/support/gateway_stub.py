"""Owns a gateway for the evaluator's tests: follows the gateway's wire over a dictionary, with faults on request."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, FastAPI, Header, Request

from services.chassis.app import create_app, router
from services.chassis.errors import (
    AnswerTooLarge,
    BadInput,
    BuildConflict,
    Conflict,
    Overloaded,
    ProblemError,
    Unavailable,
    UnknownCollection,
    UnknownPipeline,
)
from services.chassis.instruments import Instruments
from services.chassis.probes import Readiness
from services.chassis.requests.handling import handled
from services.chassis.settings.service_settings import ServiceSettings
from services.contracts.collections import (
    BackendState,
    BeginCollection,
    CollectionBegun,
    CollectionDeclaration,
    CollectionList,
    CollectionState,
    CollectionView,
    DocumentsRequest,
    Published,
    PublishRequest,
    VectorState,
)
from services.contracts.documents import (
    Document,
    DocumentsAnswer,
    FanOutReport,
    IdsRequest,
    IndexReport,
    IndexRequest,
    ItemError,
    ServiceOutcome,
)
from services.contracts.health import Check
from services.contracts.pipelines import Pipeline, PipelineList, PipelineView, Retrieve
from services.contracts.query import Degradation, PipelineRef, SearchAnswer, SearchHit, SearchRequest

PIPELINES = {
    name: Pipeline.model_validate({"name": name, "stages": stages})
    for name, stages in {
        "bm25": [{"kind": "retrieve", "id": "bm25", "backend": "lexical"}],
        "dense": [{"kind": "retrieve", "id": "dense", "backend": "dense"}],
        "hybrid": [
            {
                "kind": "fuse",
                "method": "weighted",
                "inputs": [{"kind": "retrieve", "backend": "lexical"}, {"kind": "retrieve", "backend": "dense"}],
            }
        ],
        "deepct": [{"kind": "retrieve", "backend": "lexical", "preset": "deepct"}],
    }.items()
}

BURST = 20  # searches that a drive may send too early


TOO_SLOW = Degradation(stage="dense", reason="timeout", detail="too slow", done=1, of=2)


@dataclass
class GatewayStub:
    """A gateway with its documents, the faults of its next answers, and the requests that it received."""

    documents: dict[str, Document] = field(default_factory=dict)
    declaration: CollectionDeclaration | None = None
    live: str | None = None
    build: str | None = None
    inline: bool = True
    ready_after: int = 0  # probes
    failing_loads: list[ProblemError] = field(default_factory=list)
    failures_before_each: int = 0  # calls that fail before a batch is taken
    refused_documents: set[str] = field(default_factory=set)
    overtaken_documents: set[str] = field(default_factory=set)  # newer writes of others keep them out
    to_send_again: list[set[str]] = field(default_factory=list)  # one set per batch: documents to be sent again
    reports_one_less: bool = False  # reports one published document less than there are
    failing_queries: dict[str, ProblemError] = field(default_factory=dict)
    degraded_queries: set[str] = field(default_factory=set)
    degradation: Degradation = TOO_SLOW
    repeats_first_hit: bool = False  # returns the first hit twice
    reverses_from_top: int | None = None  # turns the ranking round where as many hits are asked for
    fails_from_top: int | None = None  # answers no request for as many hits
    approximate_misses: int = 0
    most_documents_an_answer: int = 1_000
    hangs_after: int | None = None  # searches after which none is answered
    hanging: bool = False  # one waits for its answer
    answers_nothing: bool = False  # every ranking is empty
    without_lexical: bool = False
    stamp: dict[str, str] = field(default_factory=lambda: {"schema": "1"})
    model: dict[str, str] = field(default_factory=dict)  # what the stamp of `dense` has beyond this one
    search_delay_s: float = 0.0  # delay of each answer to a search
    load_delay_s: float = 0.0  # delay of each answer to a batch
    loading: int = 0  # batches at once, now
    highest_loading: int = 0
    most_searches_a_second: float | None = None  # of each drive of a load; refuses what is more, but for BURST of them
    batches: list[int] = field(default_factory=list)
    searches: list[SearchRequest] = field(default_factory=list)
    _failed: int = 0
    _drives: set[str] = field(default_factory=set)
    _began_at: float = 0.0  # of the last drive
    _taken: int = 0  # of its searches

    @property
    def app(self) -> FastAPI:
        """The ASGI app; enter its lifespan before use."""

        @asynccontextmanager
        async def opened() -> AsyncIterator[tuple[Sequence[APIRouter], Readiness]]:
            yield (ROUTES,), self._readiness

        app = create_app("gateway", ServiceSettings(port=0), Instruments(), opened)
        app.state.stub = self
        return app

    async def _readiness(self) -> tuple[Check, ...]:
        self.ready_after -= 1
        return (Check(name="lexical", ok=self.ready_after < 0, detail="still starting"),)

    def begin(self, name: str, body: BeginCollection) -> CollectionBegun:
        created = self.declaration is None
        self.build = body.build
        self.declaration = CollectionDeclaration(presets=body.presets, metadata=body.metadata)
        return CollectionBegun(collection=name, generation="shop@1", created=created, live=self.live, build=body.build)

    def publish(self, name: str, body: PublishRequest) -> Published:
        if body.expected_documents not in (None, len(self.documents)):
            raise Conflict(f"There are {len(self.documents)} documents, not {body.expected_documents}.")
        if body.build != self.build:
            raise BuildConflict("Another build.")
        self.live = "shop@1"
        count = len(self.documents) - self.reports_one_less
        return Published(collection=name, generation="shop@1", documents=count)

    def view(self) -> CollectionView:
        state = CollectionState(
            generation="shop@1", published=self.live is not None, documents=len(self.documents), engine="edge",
            stamp=self.stamp, declaration=self.declaration or CollectionDeclaration(),
        )  # fmt: skip
        vectors = VectorState(vectors=len(self.documents), indexed=2)
        lexical = BackendState(backend="lexical", family="lexical", reachable=True, generations=(state,))
        return CollectionView(
            collection="shop", live=self.live, building=None,
            backends=(
                *(() if self.without_lexical else (lexical,)),
                BackendState(backend="dense", family="dense", reachable=True,
                             generations=(state.model_copy(update={"vectors": vectors, "engine": "qdrant",
                                                                   "stamp": self.stamp | self.model}),)),
                BackendState(backend="reranker", family="reranker", reachable=True),
            ),
        )  # fmt: skip

    def load(self, request: DocumentsRequest) -> FanOutReport:
        if self.failing_loads:
            raise self.failing_loads.pop(0)
        if self._failed < self.failures_before_each:
            self._failed += 1
            raise Unavailable("away")
        self._failed = 0
        if request.build != self.build:
            raise BuildConflict("Another build.")
        self.batches.append(len(request.documents))
        full = self.to_send_again.pop(0) if self.to_send_again else set()
        errors = tuple(
            ItemError(id=item.id, reason="no", retryable=item.id in full, overtaken=item.id in self.overtaken_documents)
            for item in request.documents
            if item.id in self.refused_documents | self.overtaken_documents | full
        )
        taken = [item for item in request.documents if item.id not in {error.id for error in errors}]
        unchanged = sum(self.documents.get(item.id) == item for item in taken)
        self.documents |= {item.id: item for item in taken}
        report = IndexReport(indexed=len(taken) - unchanged, unchanged=unchanged, errors=errors)
        encoded = report.model_copy(update={"encoded": report.indexed})
        return FanOutReport(
            collection="shop@1", complete=not errors, documents=len(request.documents),
            services=(
                ServiceOutcome(backend="lexical", status="ok", report=report),
                ServiceOutcome(backend="dense", status="ok", report=encoded),
            ),
            undeclared_metadata=self._undeclared(request),
        )  # fmt: skip

    def _undeclared(self, request: IndexRequest) -> tuple[str, ...]:
        declared = self.declaration.metadata if self.declaration else {}
        return tuple(sorted({name for item in request.documents for name in item.metadata} - declared.keys()))

    def _expect_free(self, request_id: str) -> None:
        """Raises Overloaded for a search above the limit. A pause of the machine takes nothing away from a drive.

        `request_id`: of a load, the name of its generator and a number.
        """
        if self.most_searches_a_second is None:
            return
        now, drive = time.monotonic(), request_id.rpartition("-")[0]
        if drive not in self._drives:
            self._drives.add(drive)
            self._began_at, self._taken = now, 0
        if self._taken >= BURST + (now - self._began_at) * self.most_searches_a_second:
            raise Overloaded("Too many searches.")
        self._taken += 1

    def search(self, request: SearchRequest, request_id: str) -> SearchAnswer:
        self.searches.append(request)
        self._expect_free(request_id)
        if request.query in self.failing_queries:
            raise self.failing_queries[request.query]
        if self.fails_from_top is not None and request.top >= self.fails_from_top:
            raise Unavailable("too many hits")
        if isinstance(request.pipeline, Pipeline):
            if not self.inline:
                raise BadInput("Inline pipelines are switched off here; name one of GET /v1/pipelines.")
            pipeline = request.pipeline
        elif request.pipeline in PIPELINES:
            pipeline = PIPELINES[request.pipeline]
        else:
            raise UnknownPipeline(f"{request.pipeline}: there are bm25, dense, hybrid.")
        words = set(request.query.lower().split())
        scored = {
            item.id: len(words & set(item.passage.lower().split()))
            for item in self.documents.values()
            if item.id not in request.exclude_ids
        }
        ids = sorted((name for name in scored if scored[name]), key=lambda name: (-scored[name], name))
        source = pipeline.stages[0]
        if isinstance(source, Retrieve) and source.backend == "dense" and not source.exact:
            ids = ids[self.approximate_misses :]
        if self.reverses_from_top is not None and request.top >= self.reverses_from_top:
            ids = ids[::-1]
        if self.repeats_first_hit and ids:
            ids = [ids[0], *ids]
        ids = [] if self.answers_nothing else ids[: request.top]
        return SearchAnswer(
            collection="shop@1",
            pipeline=PipelineRef(name=pipeline.name, fingerprint=pipeline.fingerprint),
            request_id="r",
            hits=tuple(SearchHit(id=name, rank=at, score=scored[name]) for at, name in enumerate(ids, start=1)),
            degraded=(self.degradation,) if request.query in self.degraded_queries else (),
            timings_ms={stage.id: 1.0 for stage in pipeline.identified} | {"total": 2.0},
        )


# Made once: each app finds its stub in its state.
ROUTES = router()
COLLECTION = "/v1/collections/{name}"


def _stub(request: Request) -> GatewayStub:
    stub: GatewayStub = request.app.state.stub
    return stub


@ROUTES.put(COLLECTION)
@handled(scope="search")
async def _put(request: Request, name: str, body: BeginCollection) -> CollectionBegun:
    return _stub(request).begin(name, body)


@ROUTES.delete(COLLECTION, status_code=204)
@handled(scope="search")
async def _remove(request: Request, name: str) -> None:
    held = _stub(request)
    held.declaration = held.live = held.build = None
    held.documents = {}


@ROUTES.get("/v1/collections")
@handled(scope="search")
async def _list() -> CollectionList:
    return CollectionList(collections=(), backends=("lexical", "dense"))


@ROUTES.get(COLLECTION)
@handled(scope="search")
async def _view(request: Request, name: str) -> CollectionView:
    held = _stub(request)
    if held.declaration is None:
        raise UnknownCollection(f"{name} is not here.")
    return held.view()


@ROUTES.post(f"{COLLECTION}/documents")
@handled(scope="search")
async def _load(request: Request, name: str, body: DocumentsRequest) -> FanOutReport:
    held = _stub(request)
    held.loading += 1
    held.highest_loading = max(held.highest_loading, held.loading)
    try:
        await asyncio.sleep(held.load_delay_s)
        return held.load(body)
    finally:
        held.loading -= 1


@ROUTES.post(f"{COLLECTION}/documents/get")
@handled(scope="search")
async def _get(request: Request, body: IdsRequest) -> DocumentsAnswer:
    stub = _stub(request)
    found = [stub.documents[one] for one in body.ids if one in stub.documents]
    if len(found) > stub.most_documents_an_answer:
        raise AnswerTooLarge(f"{len(found)} documents.")
    missing = [one for one in body.ids if one not in stub.documents]
    return DocumentsAnswer(documents=tuple(found), missing=tuple(missing))


@ROUTES.post(f"{COLLECTION}/publish")
@handled(scope="search")
async def _publish(request: Request, name: str, body: PublishRequest) -> Published:
    return _stub(request).publish(name, body)


@ROUTES.post(f"{COLLECTION}/search")
@handled(scope="search")
async def _search(request: Request, body: SearchRequest, x_request_id: Annotated[str, Header()] = "") -> SearchAnswer:
    stub = _stub(request)
    await asyncio.sleep(stub.search_delay_s)
    if stub.hangs_after is not None and len(stub.searches) >= stub.hangs_after:
        stub.hanging = True
        await asyncio.Event().wait()
    return stub.search(body, x_request_id)


@ROUTES.get("/v1/pipelines")
@handled(scope="search")
async def _pipelines() -> PipelineList:
    return PipelineList(pipelines=tuple([await _pipeline(name) for name in PIPELINES]))


@ROUTES.get("/v1/pipelines/{name}")
@handled(scope="search")
async def _pipeline(name: str) -> PipelineView:
    if name not in PIPELINES:
        raise UnknownPipeline(f"{name}: there are bm25, dense, hybrid.")
    return PipelineView(name=name, fingerprint=PIPELINES[name].fingerprint, pipeline=PIPELINES[name])


def write_shop(directory: Path) -> Path:
    """Writes a collection of six documents in BEIR layout, with every irregularity that a load counts. Own text."""
    (directory / "qrels").mkdir(parents=True)
    (directory / "corpus.jsonl").write_text(
        '{"_id": "d1", "title": "Red bell", "text": "a brass bell painted red", "metadata": {"year": 2019}}\n'
        '{"_id": "d2", "title": "Blue bell", "text": "a steel bell", "metadata": {"year": 2021, "odd": {"a": 1}}}\n'
        '{"_id": "d3", "title": "", "text": "green saddle with springs"}\n'
        '{"_id": "d4", "title": "Chain", "text": "oil\\u0000 for a chain"}\n'
        '{"_id": "q4", "title": "", "text": "saddle   springs\\nsqueak"}\n'
        '{"_id": "d5", "title": "Empty", "text": ""}\n'
    )
    (directory / "queries.jsonl").write_text(
        '{"_id": "q1", "text": "red bell"}\n{"_id": "q2", "text": "oil chain"}\n{"_id": "q3", "text": "steel"}\n'
        '{"_id": "q4", "text": "saddle springs squeak"}\n{"_id": "q5", "text": "never judged"}\n'
    )
    (directory / "qrels" / "test.tsv").write_text(
        "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t1\nq2\td4\t1.0\nq2\td1\t-1\nq3\td1\t0\nq4\td3\t1\nq4\tgone\t0\n"
    )
    return directory
