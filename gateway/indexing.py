"""Documents in, out and by id at every storing backend, with a report of each, so that a half-success is seen."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from gateway import backends as wire
from gateway.backends import Backends
from gateway.budget import Budget
from gateway.downstream import Backend
from gateway.failures import BackendFailed, as_problem
from gateway.families import named
from gateway.fan_out import left, on_each, outcomes
from gateway.generations import Generations
from gateway.history import History
from gateway.publishing import needed
from gateway.undeclared import undeclared
from gateway.write_clock import WriteClock
from gateway.write_pauses import WritePauses
from services.chassis.deadlines import current_deadline
from services.chassis.errors import BuildConflict, BuildNeeded, Superseded, Unavailable
from services.contracts.collections import DeleteRequest, DocumentsRequest, build_mark
from services.contracts.documents import (
    DeleteReport,
    DocumentsAnswer,
    FanOutReport,
    FetchRequest,
    IdsRequest,
    IndexReport,
    IndexRequest,
    ItemError,
)
from services.contracts.generations import name_of, number_of

Report = TypeVar("Report", IndexReport, DeleteReport)
# How long a build may take from its first backend to its last. Afterwards it was given up halfway, and nobody waits
# for it: PUT, which completes it, is answered after all writes that left it out.
BEGINNING_S, BEGINNING_LOOK_S = 2.0, 0.05


@dataclass(frozen=True, slots=True)
class Part:
    """One call of a write: to which generation, for which build (None: whoever's it is), and how long it may take."""

    generation: str
    build: str | None
    version: int
    timeout_s: float


class Indexing:
    """Writes to all storing backends at once; sending again is the recovery.

    Every write gets a version that all services compare, so that batches which overtake each other end the same
    everywhere.
    """

    def __init__(self, backends: Backends, generations: Generations, pauses: WritePauses) -> None:
        self._backends = backends
        self._generations = generations
        self._pauses = pauses
        self._clock = WriteClock()
        # By collection: builds that some backends lack, and since when we know.
        self._half_begun: dict[str, dict[str, float]] = {}

    async def index(self, name: str, batch: DocumentsRequest) -> FanOutReport:
        """A batch to every storing backend. Raises only when none took anything."""
        request = IndexRequest.model_construct(documents=batch.documents)

        async def index(backend: Backend, part: Part) -> IndexReport:
            return await wire.index(backend, part.generation, request, part.version, part.build, part.timeout_s)

        report = await self._write(name, batch.build, len(batch.documents), index)
        states = self._generations.history(name).states
        return report.model_copy(
            update={
                "stripped_characters": sum(document.stripped for document in batch.documents),
                "undeclared_metadata": undeclared(batch.documents, report.collection, states),
            }
        )

    async def delete_documents(self, name: str, ids: DeleteRequest) -> FanOutReport:
        """Documents out of every storing backend. Raises only when none could be asked."""
        request = IdsRequest.model_construct(ids=ids.ids)

        async def delete(backend: Backend, part: Part) -> DeleteReport:
            return await wire.delete(backend, part.generation, request, part.version, part.build, part.timeout_s)

        return await self._write(name, ids.build, len(ids.ids), delete)

    async def get_documents(self, name: str, ids: IdsRequest) -> DocumentsAnswer:
        """Documents by id from the document store."""
        budget = Budget.within(current_deadline())
        store = self._backends.document_store
        if store is None:
            families = named(lambda family: family.document_store)
            raise Unavailable(f"There is no document store: GATEWAY_BACKENDS names no backend of family {families}.")
        generation = await self._generations.readable(name, left(budget))
        try:
            answer = await wire.documents(store, generation, FetchRequest(ids=ids.ids), left(budget))
        except BackendFailed as failure:
            raise as_problem(failure) from failure
        return DocumentsAnswer.model_construct(documents=answer.documents, missing=answer.missing)

    async def _write(
        self, name: str, token: str | None, documents: int, write: Callable[[Backend, Part], Awaitable[Report]]
    ) -> FanOutReport:
        """To the generation of the build, or to the live one and then to every build above it: published without the
        write, a build would lose it. Waits while somebody compares what the services hold."""
        async with self._pauses.write(name):
            return await self._write_now(name, token, documents, write)

    async def _write_now(
        self, name: str, token: str | None, documents: int, write: Callable[[Backend, Part], Awaitable[Report]]
    ) -> FanOutReport:
        budget = Budget.within(current_deadline())
        history = await self._generations.known(name, left(budget))
        target = _target(history, token)
        version = self._clock.next()

        async def on_one(backend: Backend) -> Report:
            return await write(backend, Part(target, history.build(target), version, left(budget)))

        results = await on_each(self._backends.storing, on_one)
        if target == history.live:
            results = await self._into_builds(target, version, results, write, budget)
        reports = [result for _, result in results if not isinstance(result, BackendFailed)]
        for report in reports:
            self._clock.seen(report.latest_version)
        return FanOutReport(
            collection=target,
            complete=len(reports) == len(results) and all(not report.errors for report in reports),
            documents=documents,
            services=outcomes(results),
        )

    async def _into_builds(
        self,
        target: str,
        version: int,
        results: Sequence[tuple[Backend, Report | BackendFailed]],
        write: Callable[[Backend, Part], Awaitable[Report]],
        budget: Budget,
    ) -> Sequence[tuple[Backend, Report | BackendFailed]]:
        """Writes what the live generation was given to every build above it as well.

        They are looked for only now, and again until there is none more: one that began while this was written must
        have it too.
        """
        done: set[str] = set()
        while True:
            await self._generations.refresh(left(budget))
            history = self._generations.history(name_of(target))
            missing = [build for build in history.written_with(target) if build not in done]
            # Written where it is and missing where it is not yet, a document would keep a build from being published.
            halves = [build for build in missing if build != history.live and not history.held_by_all(build)]
            todo = [build for build in missing if build not in halves]
            if not todo and not self._just_begun(history.name, halves):
                return results
            if not todo:
                await asyncio.sleep(BEGINNING_LOOK_S)
            for build in todo:
                part = Part(build, history.build(build), version, left(budget))
                results = await asyncio.gather(
                    *(_with_build(history, backend, result, part, write) for backend, result in results)
                )
            done.update(todo)

    def _just_begun(self, name: str, halves: Sequence[str]) -> bool:
        """Whether one of these builds, which some backends lack, may be there everywhere in a moment."""
        now = time.monotonic()
        since = self._half_begun.get(name, {})
        self._half_begun[name] = {build: since.get(build, now) for build in halves}
        if not halves:
            del self._half_begun[name]
        return any(now - since.get(build, now) < BEGINNING_S for build in halves)


async def _with_build(
    history: History,
    backend: Backend,
    result: Report | BackendFailed,
    part: Part,
    write: Callable[[Backend, Part], Awaitable[Report]],
) -> tuple[Backend, Report | BackendFailed]:
    """A backend's result for the live generation with what went wrong in a build added to it."""
    if isinstance(result, BackendFailed):
        return backend, result
    if not history.held_by(backend.name, part.generation):
        return backend, result
    try:
        built = await write(backend, part)
    except BackendFailed as failure:
        # Removed, begun again, or made by another model: this backend cannot publish it as it is, so nothing is lost.
        passing = failure.unknown_generation or failure.other_build or failure.not_its_own
        return backend, result if passing else failure
    return backend, _joined(result, built, part.generation)


def _joined(live: Report, built: Report, build: str) -> Report:
    """The report of the live generation, with the errors of a build named as its own."""
    named: list[ItemError] = [
        error.model_copy(update={"reason": f"In {build}, which is being built: {error.reason}"})
        for error in built.errors
    ]
    latest = max(live.latest_version or 0, built.latest_version or 0) or None
    return live.model_copy(update={"errors": (*live.errors, *named), "latest_version": latest})


def _target(history: History, token: str | None) -> str:
    """The generation that a write means. Raises a Conflict that says what to send instead."""
    live, name = history.live, history.name
    if token is None:
        if live is None:
            raise BuildNeeded(needed(history))
        return live
    own = history.of_build(build_mark(token))
    if own is None:
        raise BuildConflict(
            f"No generation of collection '{name}' belongs to this build. PUT /v1/collections/{name} with the same "
            "`build` begins one; without a `build` documents go to the live generation."
        )
    if live is not None and number_of(own) < number_of(live):
        raise Superseded(
            f"{own}, which this build began, is older than {live}, which is live now. PUT /v1/collections/{name} again "
            "to begin a newer one."
        )
    return own
