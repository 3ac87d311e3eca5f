"""Plans the traffic of a load from a seed: kinds, slices and requests; describes its amount. Pure."""

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from evaluator.datasets.reader import Dataset
from evaluator.experiments.experiment import Experiment
from evaluator.experiments.load_plan import ArrivalProcess, LoadPlan, QueryDraw
from evaluator.load.sending.load_loop import LoopKind
from evaluator.runs.latency import MIN_SAMPLES_FOR_P99
from evaluator.steps.arms import Arm, search_request
from services.contracts.pipelines import Rerank

# A closed loop sends as often as it gets answers, so the number of queries is not known before.
CLOSED_LOOP_DRAWS = 20_000
# The extra time of a drive: its generators start before it and its answers are read after it.
DRIVE_OVERHEAD_S = 1.0
ROUND_S = 5


@dataclass(frozen=True, slots=True)
class Traffic:
    """One kind of traffic, through each pipeline in turn."""

    name: str  # as in the names of the files: `20`, `1.5x`, `inflight8`
    rate: float | None = None
    in_flight: int | None = None

    @property
    def loop(self) -> LoopKind:
        """Whether requests are sent at planned times or after answers."""
        return "open" if self.in_flight is None else "closed"


def planned_traffic(plan: LoadPlan) -> list[Traffic]:
    """Returns the kinds of traffic of a plan in their order."""
    rates = [Traffic(f"{rate:g}", rate=rate) for rate in plan.rates]
    return rates + [Traffic(f"inflight{number}", in_flight=number) for number in plan.in_flight]


def slice_count(plan: LoadPlan, arms: int) -> int:
    """Returns into how many slices a point is cut. A single pipeline takes no turns, so its point is not cut."""
    return 1 if arms == 1 else max(1, round(plan.seconds / plan.slice_seconds))


class PlannedRequest(NamedTuple):
    """A request before it is sent: seconds since the start, pipeline and query."""

    at_s: float
    pipeline: str
    query: str


class PlannedSlice(NamedTuple):
    """A slice of an open loop: planned seconds and queries, the same for every pipeline, warm-up among them."""

    warmup_s: float
    queries: list[tuple[float, str]]

    def through(self, pipeline: str) -> list[PlannedRequest]:
        """Returns the requests of a pipeline."""
        return [PlannedRequest(at_s, pipeline, query) for at_s, query in self.queries]


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


def arrival_times(rate: float, seconds: float, process: ArrivalProcess, seed: str) -> list[float]:
    """Returns the planned send times, in seconds since the start, ascending.

    `poisson` has exponential gaps; `constant` spaces the requests evenly, the first at 0.
    """
    units = itertools.takewhile(lambda unit: unit < rate * seconds, _unit_process(process, seed))
    return [unit / rate for unit in units]


def _unit_process(process: ArrivalProcess, seed: str) -> Iterator[float]:
    if process == "constant":
        return (float(number) for number in itertools.count())
    dice = random.Random(seed)
    return itertools.accumulate(dice.expovariate(1.0) for _ in itertools.count())


def drawn_queries(queries: Sequence[str], draw: QueryDraw, seed: int, part: str) -> Iterator[str]:
    """Yields queries without end. `part`: what is drawn, of the things that are drawn from one seed.

    `uniform`: shuffles of all queries, one after another, so that any number of requests asks each query equally often
    but for one. `zipf`: with replacement; the first of a shuffled list is drawn k times as often as its k-th, and this
    list is the same for all parts: the popular queries stay popular.
    """
    dice = random.Random(f"{seed} {part}")
    popular = random.Random(f"{seed} popular").sample(queries, len(queries))
    weights = [1 / rank for rank in range(1, len(queries) + 1)]
    while queries:
        if draw == "uniform":
            yield from dice.sample(queries, len(queries))
        else:
            yield from dice.choices(popular, weights, k=len(queries))


def open_slices(
    queries: Sequence[str], rate: float, seconds: float, count: int, plan: LoadPlan, seed: int, repeat: int
) -> Iterator[PlannedSlice]:
    """Yields `count` slices of so many seconds, the first with the warm-up before them.

    The times are drawn for each rate and slice, the queries for the repeat alone: the requests without the warm-up
    ask one draw in its order, from slice to slice. So a higher rate begins with the queries of a lower one, and an
    exported script asks the same.
    """
    measured = drawn_queries(queries, plan.draw, seed, f"{repeat} queries")
    before = drawn_queries(queries, plan.draw, seed, f"{repeat} warm-up")
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
    queries = drawn_queries(target.queries, plan.draw, seed, f"{part} queries")
    return [PlannedRequest(at_s, pipeline, query) for at_s, query in zip(times, queries, strict=False)]


def closed_requests(target: LoadTarget, pipeline: str, plan: LoadPlan, seed: int, part: str) -> list[PlannedRequest]:
    """Draws the queries of a closed loop, which are sent when answers arrive. `part`: as of `open_requests`."""
    queries = drawn_queries(target.queries, plan.draw, seed, f"{part} queries")
    return [PlannedRequest(0.0, pipeline, query) for query in itertools.islice(queries, CLOSED_LOOP_DRAWS)]


def planned_work(plan: LoadPlan, pipelines: int) -> str:
    """Returns kinds of traffic, pipelines, warm-up and duration of a plan in a line."""
    parts = []
    kinds = len(plan.rates) + len(plan.in_flight)
    if kinds:
        again = f", {plan.repeat} times" if plan.repeat > 1 else ""
        warmup = f", each after {plan.warmup_seconds:g} s of warm-up" if plan.warmup_seconds else ""
        overhead_s = slice_count(plan, pipelines) * DRIVE_OVERHEAD_S
        seconds = plan.repeat * kinds * pipelines * (plan.warmup_seconds + plan.seconds + overhead_s)
        counted = [(len(plan.rates), "rate"), (len(plan.in_flight), "closed loop")]
        named = ", ".join(_counted(number, what) for number, what in counted if number)
        parts.append(f"{named} x {_counted(pipelines, 'pipeline')}{again}{warmup}, {duration(seconds)}")
    if plan.capacity is not None:
        parts.append(
            f"a search for the capacity of {_counted(pipelines, 'pipeline')}: measurements of at most "
            f"{plan.capacity.point_seconds:g} s each until it is found"
        )
    return f"Load: {'; '.join(parts)}"


def against_work(plan: LoadPlan, pairs: int, pipelines: int) -> str:
    """Returns the same of a comparison of two gateways, which take turns in `pairs` of slices."""
    drives = 2 * len(plan.rates) * pipelines
    seconds = drives * (plan.warmup_seconds + plan.seconds + pairs * DRIVE_OVERHEAD_S)
    what = f"{_counted(len(plan.rates), 'rate')} x {_counted(pipelines, 'pipeline')} x 2 gateways"
    return f"Against: {what}, each after {plan.warmup_seconds:g} s of warm-up, {duration(seconds)}"


def duration(seconds: float) -> str:
    """Returns about how long something takes, in words."""
    return f"about {math.ceil(seconds)} s" if seconds < 90 else f"about {math.ceil(seconds / 60)} min"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def too_few_requests(plan: LoadPlan) -> Iterator[str]:
    """Yields a sentence for each rate of which fewer requests are expected than a p99 needs, with the seconds it takes.

    Poisson arrivals need more seconds than constant ones, so that enough requests come 19 times in 20.
    """
    spread = 1.65 * math.sqrt(MIN_SAMPLES_FOR_P99) if plan.arrivals == "poisson" else 0.0
    for rate in plan.rates:
        least_s = (MIN_SAMPLES_FOR_P99 + spread) / rate / plan.repeat
        if plan.seconds < least_s:
            repeated = f" --repeat {plan.repeat}" if plan.repeat > 1 else ""
            yield (
                f"--rate {rate:g} --seconds {plan.seconds:g}{repeated} gives about "
                f"{rate * plan.seconds * plan.repeat:.0f} requests; a p99 needs {MIN_SAMPLES_FOR_P99}: "
                f"send --seconds {math.ceil(least_s / ROUND_S) * ROUND_S} or more"
            )
