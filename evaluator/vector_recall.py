"""Measures the recall of approximate vector search against exact search, with the number of indexed vectors."""

import math
import random

from pydantic import FiniteFloat, ValidationError

from evaluator.client import GatewayClient, GatewayError
from evaluator.datasets.reader import Dataset
from evaluator.experiment import Experiment
from evaluator.ingest import live_states
from evaluator.progress import progress
from services.contracts.base import Count, Wire
from services.contracts.collections import CollectionView
from services.contracts.pipelines import Pipeline, Retrieve
from services.contracts.query import SearchRequest

MAX_TOP = 100


class VectorRecall(Wire):
    """`recall` is the mean share of the exact top `top` that the approximate top `top` holds, over `queries`.

    With `indexed` 0 the store scans all vectors: its recall of 1 says nothing about an index.
    """

    vectors: Count
    indexed: Count
    top: Count
    queries: Count
    recall: FiniteFloat | None
    reason: str | None = None  # why there is no figure


class RecallReport(Wire):
    """Recall by vector backend."""

    backends: dict[str, VectorRecall]


async def vector_recall(
    client: GatewayClient, experiment: Experiment, dataset: Dataset, view: CollectionView
) -> RecallReport:
    """Searches each vector backend of the live generation approximately and exactly with a seeded sample of queries."""
    judged = sorted(dataset.judgments)
    sample = random.Random(experiment.seed).sample(judged, min(experiment.recall_queries, len(judged)))
    top = min(MAX_TOP, experiment.depth)
    found: dict[str, VectorRecall] = {}
    for backend, state in live_states(view).items():
        if state.vectors is None or not sample:
            continue
        shares: list[float] = []
        reason = None
        with progress(f"Recall of {backend}", len(sample), "queries") as advance:
            for query in sample:
                try:
                    exact = await _ids(client, experiment.target, dataset.queries[query], backend, top, exact=True)
                    near = await _ids(client, experiment.target, dataset.queries[query], backend, top, exact=False)
                except ValidationError:
                    continue  # the wire does not carry this query; ranking has counted it as lost
                except GatewayError as error:
                    reason = str(error)
                    break
                if exact:
                    shares.append(len(exact & near) / len(exact))
                advance(1)
        found[backend] = VectorRecall(
            vectors=state.vectors.vectors,
            indexed=state.vectors.indexed,
            top=top,
            queries=len(shares),
            recall=None if reason or not shares else math.fsum(shares) / len(shares),
            reason=reason,
        )
    return RecallReport(backends=found)


async def _ids(
    client: GatewayClient, collection: str, text: str, backend: str, top: int, *, exact: bool
) -> frozenset[str]:
    stage = Retrieve(kind="retrieve", id="vectors", backend=backend, top=top, exact=exact)
    pipeline = Pipeline(name="exact" if exact else "approximate", stages=(stage,))
    timed = await client.search(collection, SearchRequest(query=text, pipeline=pipeline, top=top))
    return frozenset(hit.id for hit in timed.answer.hits)
