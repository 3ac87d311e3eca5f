"""Adds a backend to a live generation: fills it from the document store while searches and writes go on.

The services hold the state: a backend that has the live generation and has not published it is being filled. So a
repeated PUT goes on after a crash.
"""

import asyncio
import logging
from functools import partial

from gateway.backends import wire
from gateway.backends.budget import CALL_S
from gateway.backends.failures import BackendFailed, as_problem
from gateway.backends.fan_out import on_all
from gateway.backends.wire import Backend, Backends
from gateway.collections.filling import PASSES, RETRY_S, Filling, passes
from gateway.collections.generations import Generations
from gateway.collections.history import History
from gateway.collections.write_order import CollectionLocks
from services.chassis.background_tasks import Supervisor
from services.chassis.errors import Conflict, ProblemError
from services.contracts.collections import Addition
from services.contracts.generations import name_of

logger = logging.getLogger(__name__)


class Additions:
    """Owns the tasks of this gateway that fill backends, and why those that ended have failed."""

    def __init__(
        self,
        backends: Backends,
        generations: Generations,
        locks: CollectionLocks,
        filling: Filling,
        supervisor: Supervisor,
    ) -> None:
        self._backends = backends
        self._generations = generations
        self._locks = locks
        self._filling = filling
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
                if not passes(problem):
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
        build = history.build(generation)
        if await self._filling.fill_backend(store, generation, backend, build):
            await self._publish(generation, backend)
            return
        # It has documents that the store no longer has: deleted by another gateway while they were being copied.
        different = Conflict(
            f"{backend.name} did not become the same as {store.name} in {PASSES} passes, and is empty again; PUT the "
            "collection again when fewer writes are under way."
        )
        self._problems[generation, backend.name] = different.detail  # shown from before it is gone
        await wire.remove(backend, generation, build, CALL_S, keep_published=True)
        await self._generations.refresh(CALL_S)
        raise different

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
