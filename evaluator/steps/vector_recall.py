"""Measures the recall of approximate vector search against exact search, with the number of indexed vectors."""

import math
import random
from collections.abc import Sequence

from pydantic import FiniteFloat, ValidationError

from evaluator.client.client import GatewayClient, GatewayError
from evaluator.datasets.reader import Dataset
from evaluator.experiments.experiment import Experiment
from evaluator.progress import progress
from evaluator.steps.arms import Arm
from evaluator.steps.ingest import live_states
from services.contracts.base import Count, Wire
from services.contracts.collections import CollectionView
from services.contracts.pipelines import Pipeline, Retrieve
from services.contracts.query import SearchRequest
from services.contracts.retrieval import DEFAULT_BEAM

MAX_TOP = 100
# An index of terms is searched exactly: such a service has no other search to compare with.
EXACT_FAMILIES = frozenset({"sparse"})


class VectorRecall(Wire):
    """`recall` is the mean share of the exact top `top` that the approximate top `top` holds, over `queries`.

    `top` and `beam` are the largest with which an arm searches this backend approximately; without such an arm, the
    depth (at most MAX_TOP) and DEFAULT_BEAM. With `indexed` 0 the store scans all vectors: its recall of 1 says nothing
    about an index.
    """

    vectors: Count
    indexed: Count
    top: Count
    queries: Count
    recall: FiniteFloat | None
    reason: str | None = None  # why there is no figure
    beam: Count | None = None  # width of the approximate search; None: a report of before this field


class RecallReport(Wire):
    backends: dict[str, VectorRecall]


async def vector_recall(
    client: GatewayClient, experiment: Experiment, dataset: Dataset, view: CollectionView, arms: Sequence[Arm]
) -> RecallReport:
    """Searches each vector backend that an arm searches, approximately and exactly with a seeded sample of queries."""
    judged = sorted(dataset.judgments)
    sample = random.Random(experiment.seed).sample(judged, min(experiment.recall_queries, len(judged)))
    recalls: dict[str, VectorRecall] = {}
    stages = [item.stage for arm in arms for item in arm.pipeline.identified]
    legs = [stage for stage in stages if isinstance(stage, Retrieve)]
    approximate = approximate_backends(view)
    for backend, state in live_states(view).items():
        searched = backend in approximate and any(leg.backend == backend for leg in legs)
        if state.vectors is None or not sample or not searched:
            continue
        top, beam = _served(legs, backend, experiment)
        shares: list[float] = []
        reason = None
        with progress(f"Measuring the recall of {backend}", len(sample), "queries") as advance:
            for query in sample:
                try:
                    exact = await _ids(client, experiment.target, dataset.queries[query], backend, top, None)
                    near = await _ids(client, experiment.target, dataset.queries[query], backend, top, beam)
                except ValidationError:
                    continue  # the wire does not carry this query; ranking has counted it as lost
                except GatewayError as error:
                    reason = str(error)
                    break
                if exact:
                    shares.append(len(exact & near) / len(exact))
                advance(1)
        recalls[backend] = VectorRecall(
            vectors=state.vectors.vectors,
            indexed=state.vectors.indexed,
            top=top,
            queries=len(shares),
            recall=None if reason or not shares else math.fsum(shares) / len(shares),
            reason=reason,
            beam=beam,
        )
    return RecallReport(backends=recalls)


def approximate_backends(view: CollectionView) -> frozenset[str]:
    """Returns the backends that search the live generation approximately unless a stage is `exact`."""
    exact = {backend.backend for backend in view.backends if backend.family in EXACT_FAMILIES}
    return frozenset(name for name, state in live_states(view).items() if state.vectors is not None) - exact


def _served(legs: Sequence[Retrieve], backend: str, experiment: Experiment) -> tuple[int, int]:
    """Returns the top and the beam to measure a backend with."""
    near = [leg for leg in legs if leg.backend == backend and not leg.exact]
    top = max((leg.top for leg in near), default=min(MAX_TOP, experiment.depth))
    beam = max((DEFAULT_BEAM if leg.beam is None else leg.beam for leg in near), default=DEFAULT_BEAM)
    return top, beam


async def _ids(
    client: GatewayClient, collection: str, text: str, backend: str, top: int, beam: int | None
) -> frozenset[str]:
    """Returns the ids that a backend finds: exactly without a beam."""
    stage = Retrieve(kind="retrieve", id="vectors", backend=backend, top=top, exact=beam is None, beam=beam)
    pipeline = Pipeline(name="exact" if beam is None else "approximate", stages=(stage,))
    timed = await client.search(collection, SearchRequest(query=text, pipeline=pipeline, top=top))
    return frozenset(hit.id for hit in timed.answer.hits)
