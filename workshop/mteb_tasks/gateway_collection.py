"""Loads a corpus of mteb into a collection of a gateway, and sends it queries. Knows mteb's rows, but not mteb."""

import asyncio
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from evaluator.client.client import GatewayClient, connected, loading_errors
from evaluator.errors import EvaluationError
from evaluator.progress import progress
from evaluator.steps.ingest import advancing
from services.contracts.base import DEEPEST
from services.contracts.documents import SentDocument
from services.contracts.query import SearchRequest

IN_FLIGHT = 2


def collection_name(task: str, subset: str, split: str) -> str:
    """Returns the collection of a task's subset and split: lower case, other characters become dashes."""
    name = re.sub(r"[^a-z0-9_-]+", "-", f"mteb-{task}-{subset}-{split}".lower()).strip("-")
    if len(name) <= 64:
        return name
    return f"{name[:51]}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"


async def load_corpus(gateway: str, name: str, corpus: Iterable[Mapping[str, Any]]) -> None:
    """Loads and publishes rows with `id`, `text` and perhaps `title`. Raises EvaluationError."""
    documents = [SentDocument(id=str(row["id"]), title=row.get("title") or "", text=row["text"]) for row in corpus]
    async with connected(gateway) as client:
        build = _build(documents)
        with loading_errors("the evaluation"):
            await client.loader.begin(name, build=build)
            with progress(f"Loading {name}", len(documents), "documents") as advance:
                await client.loader.load(name, documents, build=build, progress=advancing(advance))
            await client.loader.publish(name, build=build, expected_documents=len(documents))


async def search_all(
    gateway: str, name: str, pipeline: str, queries: Mapping[str, str], top: int
) -> dict[str, dict[str, float]]:
    """Returns for each query the documents with scores that keep the order of the hits. `asked`: texts by query.

    Raises EvaluationError for the first answer that is lost or degraded, and sends no further query; and for a `top`
    that no search of a gateway has.
    """
    if top > DEEPEST:
        raise EvaluationError(
            f"{name}: the task asks for {top:,} hits a query, and a search gives {DEEPEST:,} at most; "
            "leave the k above that out of its k_values"
        )
    rankings: dict[str, dict[str, float]] = {}
    slots = asyncio.Semaphore(IN_FLIGHT)
    async with connected(gateway) as client:
        with progress(f"Searching {name}", len(queries), "queries") as advance:

            async def search(query: str, text: str) -> None:
                async with slots:
                    rankings[query] = await _hits(client, name, pipeline, query, text, top)
                advance(1)

            try:
                async with asyncio.TaskGroup() as group:
                    for query, text in queries.items():
                        group.create_task(search(query, text))
            except ExceptionGroup as failures:
                # The first one has cancelled the others.
                raise failures.exceptions[0] from None
    return {query: rankings[query] for query in queries}


async def _hits(client: GatewayClient, name: str, pipeline: str, query: str, text: str, top: int) -> dict[str, float]:
    try:
        answer = (await client.search(name, SearchRequest(query=text, pipeline=pipeline, top=top), caches=True)).answer
    except (EvaluationError, ValidationError) as error:
        raise EvaluationError(f"{name}, query {query}: {error}") from error
    if answer.degraded:
        raise EvaluationError(f"{name}, query {query}: the answer was degraded: {answer.degraded[0].detail}")
    # The rank is authoritative; mteb sorts by score and would break ties otherwise.
    return {hit.id: float(-hit.rank) for hit in answer.hits}


def _build(documents: Sequence[SentDocument]) -> str:
    digest = hashlib.sha256()
    for document in documents:
        digest.update(document.model_dump_json().encode())
    return digest.hexdigest()[:32]
