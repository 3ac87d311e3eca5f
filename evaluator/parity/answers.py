"""Loads collections through the gateway and asks them every judged query, with scores. Computes no figure."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from functools import partial

from pydantic import ValidationError

from evaluator.client.client import GatewayClient
from evaluator.client.retries import Sleep, with_retries
from evaluator.datasets.reader import Dataset
from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import Experiment
from evaluator.parity.published import Bm25Settings
from evaluator.progress import progress
from evaluator.steps.ingest import ingest, live_states
from services.contracts.base import Wire
from services.contracts.collections import CollectionState
from services.contracts.pipelines import Pipeline, Retrieve
from services.contracts.query import SearchRequest

DEPTH = 1_000
AT_ONCE = 4

ScoredHits = tuple[tuple[str, float], ...]  # (document, score), best first
Answers = Mapping[str, ScoredHits]  # by query


class ServedCollection(Wire):
    """A loaded collection: its name, and its generation in the backend that answers."""

    collection: str
    backend: str
    state: CollectionState


async def load(
    client: GatewayClient, experiment: Experiment, dataset: Dataset, searched: str | None = None
) -> ServedCollection:
    """Loads the experiment's collection, which the backend `searched` answers; None: the first lexical one.

    Raises EvaluationError, also if that backend does not hold it.
    """
    await ingest(client, experiment, dataset)
    view = await with_retries(lambda: client.collection(experiment.target), "parity")
    states = live_states(view)
    for backend in view.backends:
        wanted = backend.family == "lexical" if searched is None else backend.backend == searched
        if wanted and backend.backend in states:
            return ServedCollection(collection=view.collection, backend=backend.backend, state=states[backend.backend])
    raise EvaluationError(f"{view.collection}: {searched or 'no lexical'} backend of the gateway holds it")


def served_settings(state: CollectionState, preset: str) -> Bm25Settings:
    """Reads a preset's parameters from the generation's stamp. Raises EvaluationError if it does not state them."""
    stamp = state.stamp.get(f"preset.{preset}", "")
    parameters = re.fullmatch(r"(\w+) k1=(\S+) b=(\S+) tie_breaker=(\S+)", stamp)
    if parameters is None:
        raise EvaluationError(f"{state.generation} does not state the parameters of preset {preset}: {stamp!r}")
    fields, k1, b, tie_breaker = parameters.groups()
    return Bm25Settings.model_validate(
        {"fields": fields, "k1": float(k1), "b": float(b), "tie_breaker": float(tie_breaker)}
    )


async def ask_every_query(
    client: GatewayClient,
    served: ServedCollection,
    preset: str | None,
    dataset: Dataset,
    queries: Sequence[str],
    sleep: Sleep = asyncio.sleep,
) -> Answers:
    """Asks every query through one retrieve, excluding nothing. Raises EvaluationError for a lost query.

    It is lexical with this preset, or an exact search of vectors without one.

    A query that found the gateway busy is repeated: no latency is measured here.
    """
    retrieve = Retrieve(kind="retrieve", backend=served.backend, preset=preset, exact=preset is None, top=DEPTH)
    pipeline = Pipeline(name="parity", stages=(retrieve,))
    at_once = asyncio.Semaphore(AT_ONCE)
    with progress(f"Asking {served.state.generation} ({preset or served.backend})", len(queries), "queries") as advance:

        async def ask(query: str) -> ScoredHits:
            async with at_once:
                request = partial(_ask, client, served, pipeline, query, dataset.queries[query])
                hits = await with_retries(request, "parity", sleep)
            advance(1)
            return hits

        return dict(zip(queries, await asyncio.gather(*map(ask, queries)), strict=True))


async def _ask(
    client: GatewayClient, served: ServedCollection, pipeline: Pipeline, query: str, text: str
) -> ScoredHits:
    try:
        request = SearchRequest(query=text, pipeline=pipeline, top=DEPTH)
    except ValidationError as error:
        raise EvaluationError(f"query {query} cannot be sent: {error.errors()[0]['msg']}") from error
    answer = (await client.search(served.collection, request)).answer
    if answer.collection != served.state.generation:
        raise EvaluationError(f"{served.collection} changed from {served.state.generation} to {answer.collection}")
    return tuple((hit.id, hit.score) for hit in answer.hits)
