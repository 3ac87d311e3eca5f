"""Measures the cost of shorter deadlines: sends every query at every deadline, and reports quality and share in time.

Requests ask for the experiment's `top`, as those of `rank` and `load` do. A late or missing answer counts as an empty
ranking, as it is for a caller with that deadline. One query is out at a time: traffic is the matter of evaluator/load.
"""

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pydantic import FiniteFloat

from evaluator.client.client import GatewayClient, GatewayError, TimedAnswer
from evaluator.datasets.reader import Dataset
from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import Experiment
from evaluator.experiments.turn_orders import query_turns
from evaluator.machine.machine_conditions import MachineConditions, MachineCounters
from evaluator.machine.machine_windows import ConditionsMeter, window_faults
from evaluator.machine.measured_processes import measured_processes
from evaluator.metrics.quality import means, measure
from evaluator.progress import progress
from evaluator.runs.latency import percentile
from evaluator.runs.run_folder import RunFolder, StepFile
from evaluator.steps.arms import Arm, search_request
from evaluator.steps.prepared_run import keep_manifest, prepare_run
from evaluator.steps.rank import ChosenQueries
from evaluator.steps.reranked_candidates import candidates_scored, mean_scored, share_scored
from evaluator.thread_work import in_thread
from services.contracts.base import Count, Wire
from services.contracts.pipelines import Rerank

DEADLINES = "deadlines.json"
METRIC = "nDCG@10"


@dataclass(frozen=True, slots=True)
class LostQuery:
    """A query without a usable answer: why, and after how many milliseconds that was known."""

    error: GatewayError
    elapsed_ms: float


Outcome = TimedAnswer | LostQuery


class AtDeadline(Wire):
    """Figures of one deadline. Times in milliseconds; a query without an answer counts with at least the deadline."""

    deadline_ms: Count
    queries: Count
    in_time: FiniteFloat  # share of the queries
    late: Count  # answered after the deadline
    lost: Count  # no answer at all
    errors_by_kind: dict[str, Count]  # of `lost`
    ndcg_at_10: FiniteFloat
    degraded: Count  # answers in time with a degradation
    # Re-ranked candidates of an answer in time; null: nothing re-ranks, or nothing came in time.
    scored: FiniteFloat | None  # mean number; null too where an answer shows fewer hits than may be re-ranked
    scored_share: FiniteFloat | None  # mean share; degraded answers report it, all others count as 1
    p50_ms: FiniteFloat
    p95_ms: FiniteFloat
    slowest_ms: FiniteFloat | None  # of the answers, late ones too


class DeadlineReport(Wire):
    """Figures of one pipeline over one collection, by deadline."""

    pipeline: str
    fingerprint: str
    collection: str
    models: tuple[str, ...]
    deadlines: tuple[AtDeadline, ...]


class DeadlinesFile(StepFile):
    """deadlines.json: a report a pipeline, and whether its times hold."""

    made_from: dict[str, str]
    timed_top: Count | None = None  # hits that a request asked for; null: the experiment's depth (an earlier release)
    pipelines: tuple[DeadlineReport, ...]
    conditions: MachineConditions
    timing_valid: bool
    timing_reasons: tuple[str, ...]


async def deadlines_step(
    client: GatewayClient, folder: RunFolder, deadlines_ms: Sequence[int], counters: MachineCounters | None = None
) -> DeadlinesFile:
    """Sends every query at every deadline; writes deadlines.json and, unless there, manifest.json.

    `counters`: of tests.
    """
    with folder.locked():
        ready = await prepare_run(client, folder)
        keep_manifest(folder, ready.manifest)
        measured = measured_processes(folder.runs, client.url)
        found = await sweep(
            client, folder.experiment, ready.dataset, ready.arms, ready.queries, deadlines_ms, measured, counters
        )
        written = found.model_copy(update={"made_from": folder.hashes("experiment.json", "manifest.json")})
        folder.write(DEADLINES, written)
        return written


async def sweep(
    client: GatewayClient,
    experiment: Experiment,
    dataset: Dataset,
    arms: Sequence[Arm],
    queries: ChosenQueries,
    deadlines_ms: Sequence[int],
    measured: Collection[int] | None,
    counters: MachineCounters | None = None,
) -> DeadlinesFile:
    """Sends every query to every pipeline at every deadline. Raises EvaluationError.

    All pairs of pipeline and deadline take turns, one query at a time, so that foreign load affects them alike.
    `measured`: as of read_conditions. `counters`: of tests.
    """
    for arm in arms:
        await _warm_up(client, experiment, arm, dataset, queries.warmup, max(deadlines_ms))
    pairs = [(arm, deadline_ms) for arm in arms for deadline_ms in deadlines_ms]
    outcomes: list[dict[str, Outcome]] = [{} for _ in pairs]
    meter = ConditionsMeter(measured, counters)
    with progress(f"Queries at {len(deadlines_ms)} deadlines", len(queries.measured) * len(pairs), "queries") as done:
        for number, query in query_turns(queries.measured, len(pairs), experiment.seed):
            arm, deadline_ms = pairs[number]
            outcome = await _outcome(client, experiment, arm, dataset, query, deadline_ms)
            outcomes[number][query] = outcome
            if meter.due:
                meter.read()
            done(1, int(isinstance(outcome, LostQuery)))
    conditions = meter.read()
    reports = await in_thread(_reports, arms, dataset, deadlines_ms, outcomes, experiment.timed_top)
    faults = tuple(window_faults(conditions))
    return DeadlinesFile(
        made_from={},
        timed_top=experiment.timed_top,
        pipelines=reports,
        conditions=conditions,
        timing_valid=not faults,
        timing_reasons=faults,
    )


async def _warm_up(
    client: GatewayClient, experiment: Experiment, arm: Arm, dataset: Dataset, queries: Sequence[str], deadline_ms: int
) -> None:
    found = [await _outcome(client, experiment, arm, dataset, query, deadline_ms) for query in queries]
    lost = [one for one in found if isinstance(one, LostQuery)]
    if found and len(lost) == len(found):
        raise EvaluationError(
            f"pipeline {arm.name}: no warm-up query was answered within {deadline_ms} ms, so there is nothing to "
            f"compare: {lost[-1].error}"
        )


async def _outcome(
    client: GatewayClient, experiment: Experiment, arm: Arm, dataset: Dataset, query: str, deadline_ms: int
) -> Outcome:
    """Returns the answer, or why there is none. Raises EvaluationError for a request that the gateway refuses."""
    request = search_request(arm, dataset, query, experiment.timed_top)
    started = time.perf_counter()
    try:
        return await client.search(experiment.target, request, deadline_ms)
    except GatewayError as error:
        if 400 <= error.status < 500 and error.status != 429:
            raise EvaluationError(f"pipeline {arm.name}: {error}") from error
        return LostQuery(error, (time.perf_counter() - started) * 1000)


def _reports(
    arms: Sequence[Arm],
    dataset: Dataset,
    deadlines_ms: Sequence[int],
    outcomes: Sequence[Mapping[str, Outcome]],
    asked: int,
) -> tuple[DeadlineReport, ...]:
    """`outcomes`: by query, of each deadline of each pipeline in their order."""
    reports = []
    for at, arm in enumerate(arms):
        mine = outcomes[at * len(deadlines_ms) : (at + 1) * len(deadlines_ms)]
        every = [one.answer for of_one in mine for one in of_one.values() if isinstance(one, TimedAnswer)]
        reports.append(
            DeadlineReport(
                pipeline=arm.name,
                fingerprint=arm.pipeline.fingerprint,
                collection=", ".join(sorted({answer.collection for answer in every})),
                models=tuple(sorted({model for answer in every for model in answer.models.values()})),
                deadlines=tuple(
                    at_deadline(arm, dataset, deadline_ms, of_one, asked)
                    for deadline_ms, of_one in zip(deadlines_ms, mine, strict=True)
                ),
            )
        )
    return tuple(reports)


def at_deadline(
    arm: Arm, dataset: Dataset, deadline_ms: int, outcomes: Mapping[str, Outcome], asked: int
) -> AtDeadline:
    """Computes the figures of one deadline. `outcomes`: of every query; `asked`: hits a request."""
    given = {query: one for query, one in outcomes.items() if isinstance(one, TimedAnswer)}
    lost = [one for one in outcomes.values() if isinstance(one, LostQuery)]
    in_time = {query: timed.answer for query, timed in given.items() if timed.latency_ms <= deadline_ms}
    rankings = {query: tuple(hit.id for hit in answer.hits) for query, answer in in_time.items()}
    waited = [max(one.elapsed_ms, float(deadline_ms)) for one in lost]
    counted = sorted([timed.latency_ms for timed in given.values()] + waited)
    reranks = {item.id: item.stage.top for item in arm.pipeline.identified if isinstance(item.stage, Rerank)}
    reranked = list(in_time.values()) if reranks else []
    shares = [share_scored(answer.degraded, reranks) for answer in reranked]
    return AtDeadline(
        deadline_ms=deadline_ms,
        queries=len(outcomes),
        in_time=len(in_time) / len(outcomes),
        late=len(given) - len(in_time),
        lost=len(lost),
        errors_by_kind=dict(Counter(one.error.kind for one in lost)),
        ndcg_at_10=means(measure(dataset.judgments, rankings, list(outcomes), (METRIC,)))[METRIC] or 0.0,
        degraded=sum(bool(answer.degraded) for answer in in_time.values()),
        scored=mean_scored([candidates_scored(one.degraded, len(one.hits), reranks, asked) for one in reranked]),
        scored_share=_mean(shares),
        p50_ms=percentile(counted, 0.50),
        p95_ms=percentile(counted, 0.95),
        slowest_ms=max((timed.latency_ms for timed in given.values()), default=None),
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
