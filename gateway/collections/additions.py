"""Adds a backend to a live generation: fills it from the document store while searches and writes go on.

The services hold the state: a backend that has the live generation and has not published it is being filled. So a
repeated PUT goes on after a crash.
"""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from gateway.backends import wire
from gateway.backends.budget import CALL_S
from gateway.backends.failures import BackendFailed, as_problem
from gateway.backends.fan_out import on_all
from gateway.backends.wire import Backend, Backends
from gateway.collections.document_pages import read_page
from gateway.collections.generations import Generations
from gateway.collections.history import History
from gateway.collections.publishing import finish_index
from gateway.collections.write_order import CollectionLocks, WriteClock, WritePauses
from services.chassis.background_tasks import Supervisor
from services.chassis.errors import BodyTooLarge, Conflict, InsufficientStorage, ProblemError
from services.contracts.collections import Addition
from services.contracts.documents import Document, IndexRequest, SentDocument
from services.contracts.generations import name_of

logger = logging.getLogger(__name__)
# Documents copied in one call, as many as the evaluator's loader sends.
COPIED = 64
# Seconds until a failure that may pass is tried again.
RETRY_S = 2.0
# How often all documents are copied, and the most seconds that writes are paused for a comparison.
PASSES, MOST_PAUSE_S = 3, 10.0


class Additions:
    """Owns the tasks of this gateway that fill backends, and why those that ended have failed."""

    def __init__(
        self,
        backends: Backends,
        generations: Generations,
        locks: CollectionLocks,
        pauses: WritePauses,
        clock: WriteClock,
        supervisor: Supervisor,
    ) -> None:
        self._backends = backends
        self._generations = generations
        self._locks = locks
        self._pauses = pauses
        self._clock = clock
        self._supervisor = supervisor
        self._running: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._problems: dict[tuple[str, str], str] = {}

    def shown(self, history: History) -> tuple[Addition, ...]:
        """Returns the backends that the live generation is being added to, and how far each is."""
        live = history.live
        if live is None:
            return ()
        documents = {
            backend: state.documents
            for backend, states in history.by_backend.items()
            for state in states
            if state.generation == live
        }
        failed = {backend for generation, backend in self._problems if generation == live}
        return tuple(
            Addition(
                backend=backend,
                documents=documents.get(backend, 0),
                of=max(documents.values()),
                problem=self._problems.get((live, backend)),
            )
            for backend in sorted(history.adding(live) | failed)
        )

    def start(self, generation: str, backend: str) -> None:
        """Fills this backend in the background, unless that is under way."""
        key = generation, backend
        if key not in self._running:
            self._problems.pop(key, None)
            self._running[key] = self._supervisor.start("add", partial(self._add_patiently, generation, backend))
            self._running[key].add_done_callback(lambda _: self._running.pop(key, None))

    async def _add_patiently(self, generation: str, backend: str) -> None:
        """Adds a backend. Tries again after a failure that may pass; keeps any other for `shown`, and ends."""
        while True:
            try:
                await self._add(generation, self._backends[backend])
            except (BackendFailed, ProblemError) as failure:
                problem = as_problem(failure) if isinstance(failure, BackendFailed) else failure
                logger.warning("a backend is not filled yet", extra={"backend": backend, "because": problem.detail})
                if not _passes(problem):
                    self._problems[generation, backend] = problem.detail
                    return
            else:
                return
            await asyncio.sleep(RETRY_S)

    async def _add(self, generation: str, backend: Backend) -> None:
        history = await self._generations.fetch_history(name_of(generation), CALL_S)
        store = self._backends.document_store
        if store is None or history.live != generation or backend.name not in history.adding(generation):
            return
        for _ in range(PASSES):
            await self._fill(history, generation, store, backend)
            if await self._same(history, generation, store, backend):
                await self._publish(generation, backend)
                return
        # It has documents that the store no longer has: deleted by another gateway while they were being copied.
        different = Conflict(
            f"{backend.name} did not become the same as {store.name} in {PASSES} passes, and is empty again; PUT the "
            "collection again when fewer writes are under way."
        )
        self._problems[generation, backend.name] = different.detail  # shown from before it is gone
        await wire.remove(backend, generation, history.build(generation), CALL_S, keep_published=True)
        await self._generations.refresh(CALL_S)
        raise different

    async def _fill(self, history: History, generation: str, store: Backend, backend: Backend) -> None:
        """Copies all documents. A write of this gateway has a lower version than the page and has ended before it is
        read, or it has a higher one and wins. What a write of another gateway leaves different, the next pass copies.
        """
        after: str | None = None
        while True:
            version = self._clock.next()
            await self._pauses.settled(history.name)
            page = await read_page(store, generation, after, COPIED, lambda: CALL_S)
            await self._send(history, generation, backend, page.documents, version)
            if page.following is None:
                return
            after = page.following

    async def _send(
        self, history: History, generation: str, backend: Backend, documents: Sequence[Document], version: int
    ) -> None:
        """Sends documents, half of them at a time where a body cannot hold all."""
        if not documents:
            return
        batch = IndexRequest(documents=tuple(SentDocument(**dict(document)) for document in documents))
        try:
            report = await wire.index(backend, generation, batch, version, history.build(generation), CALL_S)
        except BackendFailed as failure:
            if failure.status != BodyTooLarge.status or len(documents) == 1:
                raise
            middle = len(documents) // 2
            for part in (documents[:middle], documents[middle:]):
                await self._send(history, generation, backend, part, version)
            return
        self._clock.advance(report.latest_version)
        for error in report.errors:
            if not error.retryable:
                raise Conflict(f"{backend.name} refuses document '{error.id}': {error.reason}")

    async def _same(self, history: History, generation: str, store: Backend, backend: Backend) -> bool:
        """Finishes the new index, and returns whether both have the same documents."""
        build = history.build(generation)
        await finish_index(backend, generation, build)
        async with self._pauses.pause(history.name, MOST_PAUSE_S):
            states = await on_all((store, backend), lambda one: wire.finish(one, generation, build, CALL_S))
        return len({(state.documents, state.digest) for state in states.values()}) == 1

    async def _publish(self, generation: str, backend: Backend) -> None:
        """Records everywhere that the generation lives on the backend, then publishes it there.

        In this order, so that no gateway that cannot see the backend counts a write as complete without it.
        """
        name = name_of(generation)
        async with self._locks.of(name):
            history = await self._generations.require(
                name, lambda one: one.backends(generation) | {backend.name}, CALL_S
            )
            if history.live != generation or backend.name not in history.adding(generation):
                return
            wider = history.declared_on(generation, history.backends(generation) | {backend.name})
            marks = (history.build(generation), history.owner(generation))
            await on_all(
                self._backends.named(wider.backends or ()),
                lambda one: wire.declare(one, generation, wider, *marks, CALL_S),
            )
            number = history.number_to_publish(generation)
            await wire.publish(backend, generation, history.build(generation), number, CALL_S)
            await self._generations.refresh(CALL_S)


def _passes(problem: ProblemError) -> bool:
    return problem.status == 429 or (problem.status >= 500 and problem.status != InsufficientStorage.status)
