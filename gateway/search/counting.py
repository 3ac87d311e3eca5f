"""Counts the matches of a search in a lexical service, beside the retrievals of its pipeline."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gateway.backends import wire
from gateway.backends.failures import BackendFailed, not_held
from gateway.backends.service_timings import collected_parts
from gateway.search.plan import WalkPlan
from gateway.search.texts import expected_store
from gateway.search.walked import RETRIEVAL, Sourced, WalkContext, Walked, elapsed_ms
from services.chassis.errors import BadInput
from services.contracts.matches import CountRequest, Matches

STAGE = "matches"


@dataclass(frozen=True, slots=True)
class Counted:
    """The counts of a search, or why there are none, and the time that counting took."""

    matches: Matches | None
    ms: float
    parts_ms: Mapping[str, float] = field(default_factory=dict)
    failure: BackendFailed | None = None

    def added_to(self, walked: Walked) -> Walked:
        """Returns the walk with these counts, or with a degradation. Raises BadInput for what the service refuses."""
        failure = self.failure
        timings_ms, parts_ms = {**walked.timings_ms, STAGE: self.ms}, {**walked.parts_ms, STAGE: self.parts_ms}
        walked = replace(walked, counts=self.matches, timings_ms=timings_ms, parts_ms=parts_ms)
        if failure is None:
            return walked
        if failure.caller_erred:
            raise BadInput(str(failure)) from failure
        return walked.degrade(STAGE, STAGE, failure.reason, str(failure), 0, 1)


async def sourced_and_counted(context: WalkContext, plan: WalkPlan, later: float) -> tuple[Sourced, Counted]:
    """Runs the source of a plan and the count concurrently. Raises as the source: a failed count is a result."""
    try:
        async with asyncio.TaskGroup() as group:
            counting = group.create_task(_counted(context, plan, later))
            sourced = await plan.source.run(context, later)
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return sourced, counting.result()


async def _counted(context: WalkContext, plan: WalkPlan, later: float) -> Counted:
    started, asked, stage = time.perf_counter(), context.request, plan.lexical
    request = CountRequest(
        query=asked.query,
        preset=None if stage is None else stage.preset,
        filter=asked.filter,
        exclude_ids=asked.exclude_ids,
        facets=asked.facets,
        total=asked.total,
    )
    try:
        backends = context.backends
        backend = expected_store(backends.document_store) if stage is None else backends[stage.backend]
        timeout_s = context.timeout_s(backend.name, RETRIEVAL, later)
        with collected_parts() as parts_ms:
            matches = await wire.count(backend, context.generation, request, timeout_s)
    except BackendFailed as failed:
        failure = not_held(failed.backend, context.generation) if failed.unknown_generation else failed
        return Counted(None, elapsed_ms(started), failure=failure)
    return Counted(matches, elapsed_ms(started), parts_ms)
