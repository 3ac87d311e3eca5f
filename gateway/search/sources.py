"""Runs the sources of a walk: all retrieves concurrently, however deeply nested, and the fusions of their rankings."""

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from gateway.backends import wire
from gateway.backends.failures import BackendFailed, as_problem, not_held
from gateway.backends.replica import collected_parts
from gateway.search.walked import RETRIEVAL, Found, Sourced, WalkContext, elapsed_ms
from services.chassis.errors import BadInput, DeadlineExceeded, Overloaded, ProblemError, Unavailable
from services.chassis.requests.spans import annotate, span
from services.contracts.base import DEEPEST
from services.contracts.documents import Document, Included
from services.contracts.generations import name_of
from services.contracts.pipelines import Fuse, Retrieve
from services.contracts.query import SearchRequest
from services.contracts.retrieval import BrowseRequest, RetrievalRequest
from services.contracts.scored import Ranking, paired
from services.ranking.fusion import AlignedLegs, Leg, ranked
from services.ranking.stages import fused

Result = TypeVar("Result")


class GenerationMovedError(Exception):
    """The generation was replaced during the walk: walk again, over the new one."""


@dataclass(frozen=True, slots=True)
class PlannedRetrieve:
    """A retrieve. `approximate`: by an approximate vector search. `alone`: no other stage reads its candidates.

    `stores`: its backend is the document store. `reranker`: the backend to which the next stage sends the texts of all
    its candidates. `counts_all`: all that it matches may be hits, and can be counted without a search.
    """

    stage: Retrieve
    approximate: bool
    alone: bool
    stores: bool = False
    reranker: str | None = None
    counts_all: bool = False

    def confined(self, request: SearchRequest) -> bool:
        """Returns whether only candidates can be hits, because `min_score`, `sort` or a count is of them."""
        chosen = request.min_score is not None or request.sort is not None
        return bool(request.query) and (chosen or (request.counts and not self.counts_all))

    def depths(self, request: SearchRequest) -> tuple[int, ...]:
        """Returns the hits that each of its searches asks for: of the candidates, and of what is beneath them.

        Where the request wants or gets no more than the candidates, one search gives them. A stage that is alone asks
        for no more hits than the request wants, unless all candidates are to be seen, counted or chosen from. Beneath
        them the depth does not depend on the request, because the order there would depend on it too. An approximate
        search for more hits may begin with others; any other search gives the candidates too.
        """
        top = self.stage.top
        if request.depth <= top or self.confined(request):
            return (request.top if self._gives_hits_alone(request) else top,)
        return (top, DEEPEST) if self.approximate else (DEEPEST,)

    def beside(self, request: SearchRequest) -> tuple[Included, ...]:
        """Returns the parts of documents that come with the hits: those that are read next of all of them.

        Where only some of them are read, the others would cost more than a request for these.
        """
        if not self.stores or (request.depth > self.stage.top and not self.confined(request)):
            return ()
        if self.reranker is not None:
            return ("title", "text")
        return request.include if self._gives_hits_alone(request) and request.highlight is None else ()

    def _gives_hits_alone(self, request: SearchRequest) -> bool:
        whole = request.explain == "candidates" or request.offset is not None or self.confined(request)
        return self.alone and not whole


@dataclass(frozen=True, slots=True)
class PlannedSource:
    """A source, bound to the function that runs it. `run` also takes the sum of the later stages' shares of time.

    `retrieves` are its own, at every depth.
    """

    id: str
    run: Callable[[WalkContext, float], Coroutine[Any, Any, Sourced]]
    least_score: float | None
    retrieves: tuple[PlannedRetrieve, ...]
    inputs: tuple["PlannedSource", ...] = ()

    def least_scores(self) -> Iterator[tuple[str, float | None]]:
        """Yields id and least score of the inputs at every depth, and of this source."""
        for source in self.inputs:
            yield from source.least_scores()
        yield self.id, self.least_score


async def retrieve(identity: str, planned: PlannedRetrieve, context: WalkContext, later: float) -> Sourced:
    """Searches one backend. A failure is part of the result if the stage may be skipped; else it is raised."""
    started = time.perf_counter()
    stage = planned.stage
    backend = context.backends[stage.backend]
    try:
        # A stage that must not fail gets the time of later stages too: without it they do not run.
        timeout_s = context.timeout_s(backend.name, RETRIEVAL, later if stage.on_failure == "skip" else 0.0)
        with collected_parts(identity) as parts:
            candidates, deeper, documents = await _searched(planned, context, timeout_s)
            annotate({"candidates": len(candidates)})
    except BackendFailed as failed:
        failure = not_held(backend.name, context.generation) if failed.unknown_generation else failed
        await _require_skippable(identity, stage, context, failure)
        return Sourced(None, {identity: elapsed_ms(started)}, {identity: failure})
    beyond = None if deeper is None else Found(deeper, {identity: deeper})
    result = Found(candidates, {identity: candidates}, beyond)
    return Sourced(result, {identity: elapsed_ms(started)}, {}, {identity: parts}, documents)


async def _searched(
    planned: PlannedRetrieve, context: WalkContext, timeout_s: float
) -> tuple[Ranking, Ranking | None, tuple[Document, ...]]:
    """Returns the stage's candidates and, where more hits are asked for and there are more, the deeper ranking; and the
    documents that came with them."""
    stage, request, backend = planned.stage, context.request, context.backends[planned.stage.backend]
    # A re-ranking that is refused reads no texts: under load they took two thirds of what the stack carries.
    refused = planned.reranker is not None and context.admission.refuses_reranking(planned.reranker)

    async def search(top: int) -> tuple[Ranking, tuple[Document, ...]]:
        if not request.query:
            listing = BrowseRequest(top=top, filter=request.filter, exclude_ids=request.exclude_ids, sort=request.sort)
            listed = await wire.browse(backend, context.generation, listing, timeout_s)
            return paired((identity, 0.0) for identity in listed.ids), ()
        retrieval = RetrievalRequest(
            query=request.query,
            top=top,
            preset=stage.preset,
            exact=stage.exact,
            beam=stage.beam,
            filter=request.filter,
            exclude_ids=request.exclude_ids,
            include=() if refused else planned.beside(request),
        )
        answer = await wire.search(backend, context.generation, retrieval, timeout_s)
        return ranked(answer.hits), answer.documents

    depths = planned.depths(context.request)
    if depths[-1] <= stage.top:
        ranking, documents = await search(depths[-1])
        return ranking, None, documents
    rankings = [hits for hits, _ in await _at_once(*map(search, depths))]
    candidates, deeper = rankings[0][: stage.top], rankings[-1]
    # Fewer than may be there are all: an approximate search could find others in a wider beam.
    return candidates, deeper if len(candidates) == stage.top else None, ()


async def fuse(
    identity: str, stage: Fuse, inputs: Sequence[PlannedSource], context: WalkContext, later: float
) -> Sourced:
    """Runs all inputs concurrently and fuses the rankings of those that did not fail."""
    given = await _at_once(*(source.run(context, later) for source in inputs))
    started = time.perf_counter()
    timings_ms = {name: ms for sourced in given for name, ms in sourced.timings_ms.items()}
    failures = {name: failure for sourced in given for name, failure in sourced.failures.items()}
    parts_ms = {name: parts for sourced in given for name, parts in sourced.parts_ms.items()}
    legs = [sourced.found for sourced in given]
    if all(leg is None for leg in legs):
        return Sourced(None, timings_ms, failures)
    with span(f"stage {identity}"):
        whole = _fused(identity, stage, inputs, legs)
        if any(leg is not None and leg.deeper is not None for leg in legs):
            deeper = [None if leg is None else leg.deeper or leg for leg in legs]
            whole = replace(whole, deeper=_fused(identity, stage, inputs, deeper))
        annotate({"candidates": len(whole.ranking)})
    return Sourced(whole, timings_ms | {identity: elapsed_ms(started)}, failures, parts_ms)


def _fused(identity: str, stage: Fuse, inputs: Sequence[PlannedSource], results: Sequence[Found | None]) -> Found:
    legs = (
        Leg(() if part is None else part.ranking, source.least_score)
        for source, part in zip(inputs, results, strict=True)
    )
    ranking = fused(stage, AlignedLegs(legs))
    outputs = {name: output for part in results if part is not None for name, output in part.outputs.items()}
    return Found(ranking, {**outputs, identity: ranking})


async def _at_once(*running: Coroutine[Any, Any, Result]) -> list[Result]:
    """Runs all concurrently and returns their results in order. The first failure cancels the others and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in running]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


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
    if all(failure.reason == "overloaded" for failure in failures.values()):
        after_s = max(1, *(math.ceil(failure.retry_after_s or 0) for failure in failures.values()))
        return Overloaded(f"{what} Try again after the seconds in Retry-After.", retry_after_s=after_s)
    passing = sorted({failure.backend for failure in failures.values() if not failure.permanent})
    if not passing:
        problems = {identity: as_problem(failure) for identity, failure in failures.items()}
        details = "; ".join(f"stage '{identity}': {problem.detail}" for identity, problem in problems.items())
        return type(next(iter(problems.values())))(f"No retriever is left. {details}")
    return Unavailable(f"No retriever is left. {what} Try again when {' or '.join(passing)} is back.", retry_after_s=1)
