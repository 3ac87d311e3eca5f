"""Adapts a pipeline of a gateway to mteb's SearchProtocol (mteb/models/models_protocols.py)."""

import asyncio
import hashlib
import re
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, TypeVar

from mteb.models import ModelMeta

from evaluator.client import GatewayClient, connected
from evaluator.errors import EvaluationError
from evaluator.progress import progress
from services.contracts.base import DEEPEST
from services.contracts.collections import BeginCollection, DocumentsRequest, PublishRequest
from services.contracts.documents import Document
from services.contracts.query import SearchRequest

Result = TypeVar("Result")
BATCH = 200
IN_FLIGHT = 2


class GatewaySearch:
    """Searches with one pipeline. Each task, subset and split is a collection of its own at the gateway.

    `index` loads a corpus unless the live generation was made of the same documents. Raises EvaluationError for an
    answer that is lost or degraded: mteb has no place to report it.
    """

    def __init__(self, gateway: str, pipeline: str) -> None:
        self._gateway = gateway
        self._pipeline = pipeline

    @property
    def mteb_model_meta(self) -> ModelMeta:
        """Names the pipeline as a model; nothing else that mteb asks of a model is known of it."""
        return ModelMeta.create_empty({"name": f"retrieval-stack/{self._pipeline}", "revision": "gateway"})

    def index(self, corpus: Any, *, task_metadata: Any, hf_split: str, hf_subset: str, **_: Any) -> None:
        """Loads and publishes a corpus of mteb: rows with `id`, `text` and perhaps `title`."""
        _run(self._load(collection_name(task_metadata.name, hf_subset, hf_split), _documents(corpus)))

    def search(
        self,
        queries: Any,
        *,
        task_metadata: Any,
        hf_split: str,
        hf_subset: str,
        top_k: int,
        top_ranked: Mapping[str, Sequence[str]] | None = None,
        **_: Any,
    ) -> dict[str, dict[str, float]]:
        """Returns for each query the documents with scores that keep the order of the hits, ties broken as they are."""
        if top_ranked is not None:
            raise EvaluationError(
                f"{task_metadata.name} is a re-ranking task: it gives the candidates, and a pipeline finds its own"
            )
        name = collection_name(task_metadata.name, hf_subset, hf_split)
        asked = {row["id"]: row["text"] for row in queries}
        return _run(self._search_all(name, asked, min(top_k, DEEPEST)))

    async def _load(self, name: str, documents: Sequence[Document]) -> None:
        async with connected(self._gateway) as client:
            build = _build(documents)
            await client.begin(name, BeginCollection(build=build))
            with progress(f"Loading {name}", len(documents), "documents") as advance:
                for batch in _batches(documents):
                    body = DocumentsRequest(documents=batch, build=build).model_dump_json(exclude_unset=True)
                    report = await client.index(name, body.encode())
                    if not report.complete:
                        raise EvaluationError(f"{name}: not every backend took a batch: {report.model_dump_json()}")
                    advance(len(batch))
            await client.publish(name, PublishRequest(build=build, expected_documents=len(documents)))

    async def _search_all(self, name: str, asked: Mapping[str, str], top: int) -> dict[str, dict[str, float]]:
        found: dict[str, dict[str, float]] = {}
        slots = asyncio.Semaphore(IN_FLIGHT)
        async with connected(self._gateway) as client:
            with progress(f"Searching {name}", len(asked), "queries") as advance:

                async def search(query: str, text: str) -> None:
                    async with slots:
                        found[query] = await self._hits(client, name, query, text, top)
                    advance(1)

                async with asyncio.TaskGroup() as group:
                    for query, text in asked.items():
                        group.create_task(search(query, text))
        return {query: found[query] for query in asked}

    async def _hits(self, client: GatewayClient, name: str, query: str, text: str, top: int) -> dict[str, float]:
        request = SearchRequest(query=text, pipeline=self._pipeline, top=top)
        answer = (await client.search(name, request, caches=True)).answer
        if answer.degraded:
            raise EvaluationError(f"{name}, query {query}: the answer was degraded: {answer.degraded[0].detail}")
        # The rank is authoritative; mteb sorts by score and would break ties otherwise.
        return {hit.id: float(-hit.rank) for hit in answer.hits}


def collection_name(task: str, subset: str, split: str) -> str:
    """Returns the collection of a task's subset and split: lower case, other characters become dashes."""
    name = re.sub(r"[^a-z0-9_-]+", "-", f"mteb-{task}-{subset}-{split}".lower()).strip("-")
    if len(name) <= 64:
        return name
    return f"{name[:51]}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"


def _documents(corpus: Iterable[Mapping[str, Any]]) -> list[Document]:
    return [Document(id=str(row["id"]), title=row.get("title") or "", text=row["text"]) for row in corpus]


def _batches(documents: Sequence[Document]) -> Iterator[tuple[Document, ...]]:
    for start in count(0, BATCH):
        batch = tuple(documents[start : start + BATCH])
        if not batch:
            return
        yield batch


def _build(documents: Sequence[Document]) -> str:
    digest = hashlib.sha256()
    for one in documents:
        digest.update(one.model_dump_json().encode())
    return digest.hexdigest()[:32]


def _run(work: Coroutine[Any, Any, Result]) -> Result:
    return asyncio.run(work)
