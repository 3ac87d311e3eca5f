"""Runs the sources of a walk: all retrieves concurrently, however deeply nested, and the fusions of their rankings."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway import backends as wire
from gateway.failures import BackendFailed, as_problem, not_held
from gateway.walked import RETRIEVAL, Sourced, WalkContext, elapsed_ms
from services.chassis.errors import BadInput, DeadlineExceeded, ProblemError, Unavailable
from services.contracts.generations import name_of
from services.contracts.pipelines import Fuse, Retrieve
from services.contracts.retrieval import RetrievalRequest
from services.ranking.fusion import Leg, Scored, ranked, reciprocal_rank, weighted


class GenerationMovedError(Exception):
    """The generation was replaced during the walk: walk again, over the new one."""


@dataclass(frozen=True, slots=True)
class PlannedSource:
    """A source, bound to the function that runs it. `run` also takes the sum of the later stages' shares of time."""

    run: Callable[[WalkContext, float], Coroutine[Any, Any, Sourced]]
    least_score: float | None


async def retrieve(identity: str, stage: Retrieve, context: WalkContext, later: float) -> Sourced:
    """Searches one backend. A failure is part of the result if the stage may be skipped; else it is raised."""
    started = time.perf_counter()
    backend = context.backends[stage.backend]
    request = RetrievalRequest(
        query=context.request.query,
        top=max(stage.top, context.request.top),
        preset=stage.preset,
        exact=stage.exact,
        filter=context.request.filter,
        exclude_ids=context.request.exclude_ids,
    )
    try:
        # A stage that must not fail gets the time of later stages too: without it they do not run.
        timeout_s = context.timeout_s(backend.name, RETRIEVAL, later if stage.on_failure == "skip" else 0.0)
        answer = await wire.search(backend, context.generation, request, timeout_s)
    except BackendFailed as failed:
        failure = not_held(backend.name, context.generation) if failed.unknown_generation else failed
        await _require_skippable(identity, stage, context, failure)
        return Sourced(None, {}, {identity: elapsed_ms(started)}, {identity: failure})
    ranking = ranked(Scored(hit.id, hit.score) for hit in answer.hits)
    return Sourced(ranking, {identity: ranking}, {identity: elapsed_ms(started)}, {})


async def fuse(
    identity: str, stage: Fuse, inputs: Sequence[PlannedSource], context: WalkContext, later: float
) -> Sourced:
    """Runs all inputs concurrently and fuses the rankings of those that did not fail."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(source.run(context, later)) for source in inputs]
    except ExceptionGroup as failures:
        # The first failure counts; it cancelled the other inputs.
        raise failures.exceptions[0] from None
    return _fused(identity, stage, inputs, [task.result() for task in tasks])


def _fused(identity: str, stage: Fuse, inputs: Sequence[PlannedSource], given: Sequence[Sourced]) -> Sourced:
    started = time.perf_counter()
    share = 1.0 if stage.method == "rrf" else 1.0 / len(inputs)
    weights = stage.weights or (share,) * len(inputs)
    legs = [
        Leg(one.ranking, weight, source.least_score)
        for source, one, weight in zip(inputs, given, weights, strict=True)
        if one.ranking is not None
    ]
    outputs = {name: output for one in given for name, output in one.outputs.items()}
    timings_ms = {name: ms for one in given for name, ms in one.timings_ms.items()}
    failures = {name: failure for one in given for name, failure in one.failures.items()}
    if not legs:
        return Sourced(None, outputs, timings_ms, failures)
    ranking = reciprocal_rank(legs, stage.k) if stage.method == "rrf" else weighted(legs, stage.normalisation)
    own_ms = {identity: elapsed_ms(started)}
    return Sourced(ranking, {**outputs, identity: ranking}, timings_ms | own_ms, failures)


async def _require_skippable(identity: str, stage: Retrieve, context: WalkContext, failure: BackendFailed) -> None:
    """Returns if the walk may continue without this retrieve; else raises the problem for the caller."""
    if failure.caller_erred:
        raise BadInput(f"stage '{identity}': {failure}") from failure
    if failure.unknown_generation and context.may_move:
        await context.generations.refresh(context.budget.share_s(1.0, 1.0))
        if context.generations.live(name_of(context.generation)) != context.generation:
            raise GenerationMovedError from failure
    if stage.on_failure == "fail":
        raise no_retriever_left({identity: failure}) from failure


def no_retriever_left(failures: Mapping[str, BackendFailed]) -> ProblemError:
    """Returns the problem that no retrieve succeeded. Advises a retry only if a backend can recover by itself."""
    what = "; ".join(f"stage '{identity}': {failure}" for identity, failure in failures.items())
    if all(failure.reason == "deadline" for failure in failures.values()):
        return DeadlineExceeded(what)
    passing = sorted({failure.backend for failure in failures.values() if not failure.permanent})
    if not passing:
        problems = {identity: as_problem(failure) for identity, failure in failures.items()}
        told = "; ".join(f"stage '{identity}': {problem.detail}" for identity, problem in problems.items())
        return type(next(iter(problems.values())))(f"No retriever is left. {told}")
    return Unavailable(f"No retriever is left. {what} Try again when {' or '.join(passing)} is back.", retry_after_s=1)
