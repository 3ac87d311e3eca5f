"""Keeps the generated queries that find their own document: doc2query-- (Gospodinov et al. 2023).

The paper keeps the share of queries that a re-ranker scores highest; here a search keeps those whose document is among
its first hits, which needs no threshold.
"""

import asyncio
import hashlib
import json
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

from evaluator.client.client import GatewayClient
from evaluator.client.retries import with_retries
from evaluator.errors import EvaluationError
from evaluator.expansion.expansion_file import continued_file, declared_models, read_expansions
from evaluator.progress import progress
from services.contracts.documents import Document
from services.contracts.expansions import Expansions, GeneratedQueries
from services.contracts.query import SearchRequest
from workshop.expansion.doc2query import checked_stamp, count_queries


async def keep_found(
    client: GatewayClient,
    collection: str,
    pipeline: str,
    first: int,
    source: Path,
    out: Path,
) -> None:
    """Writes the lines of `source` with the queries whose document is among the `first` hits of the pipeline.

    It goes on where an earlier call stopped. The collection holds the documents. Raises EvaluationError.
    """
    model = declared_models([source]).get("doc2query")
    if model is None:
        raise EvaluationError(f"{source}: has no doc2query, whose queries could be searched")
    stamp = await _stamp(client, collection, pipeline, first, model)
    total = sum(1 for _ in read_expansions(source))

    async def found(query: str, identity: str) -> bool:
        request = SearchRequest(query=query, pipeline=pipeline, top=first)
        answer = (await with_retries(partial(client.search, collection, request), "keep-found")).answer
        if answer.degraded:
            raise EvaluationError(f"{pipeline} was degraded ({answer.degraded[0].reason}): run the same command again")
        return identity in [hit.id for hit in answer.hits]

    with (
        continued_file(out, _documents(source), {"doc2query": stamp}, 1) as file,
        progress("Searching queries", total, "documents") as advance,
    ):
        advance(file.done)
        for _, identity, held in islice(read_expansions(source), file.done, None):
            assert held.doc2query is not None, "each line has the models of the first"
            queries = held.doc2query.queries
            kept = await asyncio.gather(*(found(query, identity) for query in queries))
            chosen = tuple(query for query, one in zip(queries, kept, strict=True) if one)
            file.write([(identity, Expansions(doc2query=GeneratedQueries(model=stamp, queries=chosen)))])
            advance(1)
    if count_queries(out) == 0 < count_queries(source):
        raise EvaluationError(f"{out}: no query found its document; name the collection with the documents of {source}")


def _documents(source: Path) -> Iterator[Document]:
    return (Document(id=identity) for _, identity, _ in read_expansions(source))


async def _stamp(client: GatewayClient, collection: str, pipeline: str, first: int, model: str) -> str:
    """Returns the model's stamp with a hash of the search: its pipeline, and the models behind the collection."""
    view = await client.collection(collection)
    stamps = sorted(
        json.dumps([backend.backend, state.stamp], sort_keys=True)
        for backend in view.backends
        for state in backend.generations
        if state.generation == view.live and backend.family != "lexical"
    )
    asked = (await client.pipeline(pipeline)).fingerprint
    search = hashlib.sha256(json.dumps([first, asked, stamps]).encode()).hexdigest()
    name, _, weights = model.partition("@")
    return checked_stamp(f"{name}+{search[:8]}@{weights}")
