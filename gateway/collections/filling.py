"""Fills backends with the documents of a live generation, from the document store, while searches and writes go on."""

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence
from functools import partial

from gateway.backends import wire
from gateway.backends.budget import CALL_S
from gateway.backends.failures import BackendFailed, as_problem
from gateway.backends.fan_out import on_all
from gateway.backends.wire import Backend
from gateway.collections.document_pages import read_page
from gateway.collections.write_order import WriteClock, WritePauses
from services.chassis.errors import BodyTooLarge, Conflict, InsufficientStorage, Overloaded, ProblemError
from services.contracts.collections import CollectionState
from services.contracts.documents import COPIED_VERSION, Document, IndexRequest, SentDocument
from services.contracts.generations import name_of

logger = logging.getLogger(__name__)
# Documents copied in one call, as many as the evaluator's loader sends.
COPIED = 64
# Seconds until a failure that may pass is tried again.
RETRY_S = 2.0
# How often all documents are copied, and the most seconds that writes are paused for a comparison.
PASSES, MOST_PAUSE_S = 3, 10.0


class Filling:
    """Copies documents of a live generation into a build of its collection, or to a further backend."""

    def __init__(self, pauses: WritePauses, clock: WriteClock) -> None:
        self._pauses = pauses
        self._clock = clock

    async def fill_build(
        self, store: Backend, live: str, backends: Sequence[Backend], generation: str, build: str | None
    ) -> None:
        """Copies what the build lacks. What was sent to it, or deleted from it, is newer, and stays.

        The document store gets its copies last: what was interrupted differs between the services, so that a publish
        that does not go on filling refuses it. A generation on the document store alone has nothing to differ from.
        Raises ProblemError for what does not pass.
        """
        for part in ([one for one in backends if one is not store], [one for one in backends if one is store]):
            if part:
                await self._copy(store, live, part, generation, build)

    async def fill_backend(self, store: Backend, generation: str, backend: Backend, build: str | None) -> bool:
        """Copies a live generation to a further backend, and finishes its index.

        Returns whether both then have the same documents: a write of another gateway leaves them different, which the
        next pass copies. Raises ProblemError for what does not pass.
        """
        for _ in range(PASSES):
            await self._copy(store, generation, (backend,), generation, build)
            await finish_index(backend, generation, build)
            async with self._pauses.pause(name_of(generation), MOST_PAUSE_S):
                held = await on_all((store, backend), lambda one: wire.finish(one, generation, build, CALL_S))
            if len(counts_and_digests(held.values())) == 1:
                return True
        return False

    async def _copy(
        self, store: Backend, live: str, backends: Sequence[Backend], generation: str, build: str | None
    ) -> None:
        """Copies all documents: into a build those that it lacks. To a further backend all that differ: a write of this
        gateway has a lower version than the page and has ended before it is read, or it has a higher one and wins.
        """
        after: str | None = None
        while True:
            version = self._clock.next() if generation == live else COPIED_VERSION
            await self._pauses.settled(name_of(live))
            try:
                page = await read_page(store, live, after, COPIED, lambda: CALL_S)
                await on_all(backends, partial(self._send, generation, build, page.documents, version))
            except (BackendFailed, ProblemError) as failure:
                problem = as_problem(failure) if isinstance(failure, BackendFailed) else failure
                if not passes(problem):
                    raise problem from failure
                logger.warning("documents not copied yet", extra={"because": problem.detail})
                await asyncio.sleep(RETRY_S)
                continue
            if page.following is None:
                return
            after = page.following

    async def _send(
        self, generation: str, build: str | None, documents: Sequence[Document], version: int, backend: Backend
    ) -> None:
        """Sends documents, half of them at a time where a body cannot hold all."""
        if not documents:
            return
        batch = IndexRequest(documents=tuple(SentDocument(**dict(document)) for document in documents))
        try:
            report = await wire.index(backend, generation, batch, version, build, CALL_S)
        except BackendFailed as failure:
            if failure.status != BodyTooLarge.status or len(documents) == 1:
                raise
            middle = len(documents) // 2
            for part in (documents[:middle], documents[middle:]):
                await self._send(generation, build, part, version, backend)
            return
        self._clock.advance(report.latest_version)
        for error in report.errors:
            if not error.overtaken:
                problem = Overloaded if error.retryable else Conflict
                raise problem(f"{backend.name} did not take document '{error.id}': {error.reason}")


def counts_and_digests(states: Iterable[CollectionState]) -> set[tuple[int, str | None]]:
    """Returns what services hold: one element where they hold the same."""
    return {(state.documents, state.digest) for state in states}


async def finish_index(backend: Backend, generation: str, build: str | None) -> CollectionState:
    """Finishes an index in as many calls as that takes: the service goes on after the deadline of each."""
    while True:
        called_at = time.monotonic()
        try:
            return await wire.finish(backend, generation, build, CALL_S)
        except BackendFailed as failure:
            # Without a connection a call fails at once, as a timeout too.
            if failure.reason != "timeout" or time.monotonic() - called_at < CALL_S / 2:
                raise


def passes(problem: ProblemError) -> bool:
    """Returns whether a failure may pass: a service that is away or busy."""
    return problem.status == 429 or (problem.status >= 500 and problem.status != InsufficientStorage.status)
