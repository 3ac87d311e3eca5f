"""Plans the requests of a point: which pipeline is asked for which query, and when. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from evaluator.datasets.reader import Dataset
from evaluator.experiments.experiment import Experiment
from evaluator.experiments.load_plan import LoadPlan
from evaluator.load.sending.arrivals import arrival_times, drawn_queries
from evaluator.steps.arms import Arm, search_request
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
    bodies: Mapping[tuple[str, str], bytes]  # by pipeline and query
    excluded: frozenset[str]  # queries that are documents, and exclude themselves
    reranks: Mapping[str, Mapping[str, int]]  # by pipeline: candidates of each rerank stage, as the pipeline sets them
    caches: bool  # services may answer from their caches


def load_target(
    gateway: str, experiment: Experiment, arms: Sequence[Arm], dataset: Dataset, queries: Sequence[str], plan: LoadPlan
) -> LoadTarget:
    """Builds the requests. Raises EvaluationError for a query that the wire does not carry."""
    bodies = {}
    for arm in arms:
        for query in queries:
            request = search_request(arm, dataset, query, experiment.timed_top)
            bodies[arm.name, query] = request.model_dump_json(exclude_unset=True).encode()
    return LoadTarget(
        url=f"{gateway}/v1/collections/{experiment.target}/search",
        top=experiment.timed_top,
        deadline_ms=plan.deadline_ms,
        queries=tuple(queries),
        bodies=bodies,
        excluded=frozenset(queries) & frozenset(dataset.self_retrieved),
        reranks={
            arm.name: {item.id: item.stage.top for item in arm.pipeline.identified if isinstance(item.stage, Rerank)}
            for arm in arms
        },
        caches=experiment.caches,
    )


class PlannedSlice(NamedTuple):
    """A slice of an open loop: planned seconds and queries, the same for every pipeline, warm-up among them."""

    warmup_s: float
    asked: list[tuple[float, str]]

    def through(self, pipeline: str) -> list[PlannedRequest]:
        """Returns the requests of a pipeline."""
        return [PlannedRequest(at_s, pipeline, query) for at_s, query in self.asked]


def open_slices(
    queries: Sequence[str], rate: float, seconds: float, count: int, plan: LoadPlan, seed: int, repeat: int
) -> Iterator[PlannedSlice]:
    """Yields `count` slices of so many seconds, the first with the warm-up before them.

    The times are drawn for each rate and slice, the queries for the repeat alone: the requests without the warm-up
    ask one draw in its order, from slice to slice. So a higher rate begins with the queries of a lower one, and an
    exported script, an idle slice and one while loading ask the same.
    """
    measured = drawn_queries(queries, plan.draw, plan.zipf_exponent, seed, f"{repeat} queries")
    before = drawn_queries(queries, plan.draw, plan.zipf_exponent, seed, f"{repeat} warm-up")
    for number in range(count):
        warmup_s = 0.0 if number else plan.warmup_seconds
        part = f"{seed} {rate:g} {repeat} {number} arrivals"
        times = arrival_times(rate, warmup_s + seconds, plan.arrivals, part)
        yield PlannedSlice(warmup_s, [(at_s, next(before if at_s < warmup_s else measured)) for at_s in times])


def open_requests(
    target: LoadTarget, pipeline: str, rate: float, seconds: float, plan: LoadPlan, seed: int, part: str
) -> list[PlannedRequest]:
    """Plans an open loop that stands alone. `part`: of all that is drawn from the seed."""
    times = arrival_times(rate, seconds, plan.arrivals, f"{seed} {part} arrivals")
    queries = drawn_queries(target.queries, plan.draw, plan.zipf_exponent, seed, f"{part} queries")
    return [PlannedRequest(at_s, pipeline, query) for at_s, query in zip(times, queries, strict=False)]


def closed_requests(target: LoadTarget, pipeline: str, plan: LoadPlan, seed: int, part: str) -> list[PlannedRequest]:
    """Draws the queries of a closed loop, which decides itself when they are sent. `part`: as of `open_requests`."""
    queries = drawn_queries(target.queries, plan.draw, plan.zipf_exponent, seed, f"{part} queries")
    return [PlannedRequest(0.0, pipeline, query) for query in islice(queries, CLOSED_LOOP_DRAWS)]
