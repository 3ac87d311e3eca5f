"""Plans the requests of a point: which pipeline is asked for which query, and when. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import ValidationError

from evaluator.arms import Arm, search_request
from evaluator.datasets.reader import Dataset
from evaluator.errors import EvaluationError
from evaluator.experiment import Experiment
from evaluator.load.arrivals import arrival_times, drawn_queries
from evaluator.load_plan import LoadPlan, TrafficStep
from services.contracts.pipelines import Rerank

# A closed loop sends as often as it gets answers, so the number of queries is not known before.
CLOSED_LOOP_DRAWS = 20_000


class PlannedRequest(NamedTuple):
    """A request before it is sent: seconds since the start, and what is asked."""

    at_s: float
    pipeline: str
    query: str


@dataclass(frozen=True, slots=True)
class LoadTarget:
    """Where requests go, and the request of every query through every pipeline, as bytes."""

    url: str  # of the search in the collection
    top: int
    deadline_ms: int
    queries: tuple[str, ...]  # ids, those that are drawn from
    words: Mapping[str, int]  # by query, how many its text has
    bodies: Mapping[tuple[str, str], bytes]  # by pipeline and query
    excluded: frozenset[str]  # queries that are documents, and exclude themselves
    reranks: Mapping[str, Mapping[str, int]]  # by pipeline: candidates of each rerank stage, as the pipeline says
    caches: bool  # services may answer from their caches


def load_target(
    gateway: str, experiment: Experiment, arms: Sequence[Arm], dataset: Dataset, queries: Sequence[str], plan: LoadPlan
) -> LoadTarget:
    """Builds the requests. Raises EvaluationError for a query that the wire does not carry."""
    bodies = {}
    for arm in arms:
        for query in queries:
            try:
                request = search_request(arm, dataset, query, experiment.timed_top)
            except ValidationError as error:
                raise EvaluationError(f"query {query} cannot be sent: {error.errors()[0]['msg']}") from error
            bodies[arm.name, query] = request.model_dump_json(exclude_unset=True).encode()
    return LoadTarget(
        url=f"{gateway}/v1/collections/{experiment.target}/search",
        top=experiment.timed_top,
        deadline_ms=plan.deadline_ms,
        queries=tuple(queries),
        words={query: len(dataset.queries[query].split()) for query in queries},
        bodies=bodies,
        excluded=frozenset(queries) & frozenset(dataset.self_retrieved),
        reranks={
            arm.name: {item.id: item.stage.top for item in arm.pipeline.identified if isinstance(item.stage, Rerank)}
            for arm in arms
        },
        caches=experiment.caches,
    )


def slice_seed(seed: int, name: str, repeat: int, number: int) -> str:
    """Returns the seed of a slice of traffic: the same times and queries for every pipeline, here and exported.

    Also for an idle slice and one while loading, which have one `name`.
    """
    return f"{seed} {name} {repeat} {number}"


def open_requests(
    target: LoadTarget, pipeline: str, steps: Sequence[TrafficStep], plan: LoadPlan, seed: str
) -> list[PlannedRequest]:
    """Plans an open loop. All pipelines get the same times and queries from one seed."""
    times = arrival_times(steps, plan.arrivals, f"{seed} arrivals")
    queries = drawn_queries(target.queries, plan.draw, plan.zipf_exponent, len(times), f"{seed} queries")
    return [PlannedRequest(at_s, pipeline, query) for at_s, query in zip(times, queries, strict=True)]


def closed_requests(target: LoadTarget, pipeline: str, plan: LoadPlan, seed: str) -> list[PlannedRequest]:
    """Draws the queries of a closed loop, which decides itself when they are sent."""
    queries = drawn_queries(target.queries, plan.draw, plan.zipf_exponent, CLOSED_LOOP_DRAWS, f"{seed} queries")
    return [PlannedRequest(0.0, pipeline, query) for query in queries]
