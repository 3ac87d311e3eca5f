"""Counts what a search matches, and keeps to its candidates where they are counted, chosen or sorted."""

import asyncio
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from gateway.backends import wire
from gateway.backends.failures import BackendFailed, as_problem, not_held
from gateway.backends.replica import collected_parts
from gateway.backends.wire import Backend
from gateway.search.plan import WalkPlan
from gateway.search.texts import expected_store
from gateway.search.walked import ARRANGING, RETRIEVAL, Found, Sourced, WalkContext, Walked, elapsed_ms
from services.chassis.errors import BadInput
from services.contracts.base import DEEPEST
from services.contracts.matches import CountRequest, Matches
from services.contracts.retrieval import BrowseRequest

COUNTING, SORTING = "matches", "sort"


@dataclass(frozen=True, slots=True)
class Counted:
    """The counts of a search, or why there are none, and the time that counting took."""

    result: Matches | BackendFailed
    ms: float
    parts_ms: Mapping[str, float]

    def added_to(self, walked: Walked) -> Walked:
        """Returns the walk with these counts, or with a degradation. Raises BadInput for what the service refuses."""
        result, parts_ms = self.result, {**walked.parts_ms, COUNTING: self.parts_ms}
        walked = replace(walked, timings_ms={**walked.timings_ms, COUNTING: self.ms}, parts_ms=parts_ms)
        if isinstance(result, Matches):
            return replace(walked, counts=result)
        if result.caller_erred:
            raise BadInput(str(result)) from result
        return walked.degrade(COUNTING, COUNTING, result.reason, str(result), 0, 1)


async def sourced_and_counted(context: WalkContext, plan: WalkPlan, later: float) -> tuple[Sourced, Counted]:
    """Runs the source of a plan, and concurrently counts all that match. Raises as the source: a failed count is a
    result."""
    request, stage = context.request, plan.source.retrieves[0].stage
    counting = CountRequest(
        query=request.query,
        preset=stage.preset,
        filter=request.filter,
        exclude_ids=request.exclude_ids,
        facets=request.facets,
        total=request.total,
    )
    try:
        async with asyncio.TaskGroup() as group:
            counted = group.create_task(_counted(context, context.backends[stage.backend], counting, RETRIEVAL, later))
            sourced = await plan.source.run(context, later)
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return sourced, counted.result()


async def _counted(
    context: WalkContext, store: Backend | None, counting: CountRequest, share: float, later: float
) -> Counted:
    started = time.perf_counter()
    with collected_parts(COUNTING) as parts_ms:
        try:
            backend = expected_store(store)
            timeout_s = context.timeout_s(backend.name, share, later)
            result: Matches | BackendFailed = await wire.count(backend, context.generation, counting, timeout_s)
        except BackendFailed as failed:
            result = not_held(failed.backend, context.generation) if failed.unknown_generation else failed
    return Counted(result, elapsed_ms(started), parts_ms)


async def arranged(context: WalkContext, walked: Walked, later: float) -> Walked:
    """Returns the walk with its candidates alone, those of `min_score`: sorted, or a problem is raised, and counted."""
    request = context.request
    least = -math.inf if request.min_score is None else request.min_score
    kept = tuple(hit for hit in walked.ranking[:DEEPEST] if hit.score >= least)
    walked, ids = replace(walked, ranking=kept, beneath=Found()), tuple(hit.id for hit in kept)
    if request.sort is not None:
        walked = await _sorted(context, walked, BrowseRequest(top=DEEPEST, ids=ids, sort=request.sort), later)
    if request.facets:
        counting = CountRequest(ids=ids, facets=request.facets, total=True)
        counted = await _counted(context, context.backends.document_store, counting, ARRANGING, later)
        walked = counted.added_to(walked)
    stored = walked.counts or Matches()
    if stored.total is not None:
        walked = walked.flag_missing(COUNTING, COUNTING, stored.total, len(ids))
    counts = Matches(relation="candidates", total=len(kept) if request.total else None, facets=stored.facets)
    return replace(walked, counts=counts if request.total or stored.facets else None)


async def _sorted(context: WalkContext, walked: Walked, listing: BrowseRequest, later: float) -> Walked:
    """Sorts the candidates by what the document store has. Those that it lacks come last, as without the field."""
    started = time.perf_counter()
    try:
        store = expected_store(context.backends.document_store)
        timeout_s = context.timeout_s(store.name, ARRANGING, later)
        with collected_parts(SORTING) as parts:
            listed = (await wire.browse(store, context.generation, listing, timeout_s)).ids
    except BackendFailed as failure:
        raise as_problem(failure) from failure
    places = {identity: place for place, identity in enumerate(listed)}
    ranking = tuple(sorted(walked.ranking, key=lambda hit: (places.get(hit.id, DEEPEST), hit.id)))
    walked = replace(walked, ranking=ranking).flag_missing(SORTING, SORTING, len(listed), len(ranking))
    return walked.timed(SORTING, started, parts)
