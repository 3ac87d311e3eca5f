"""Resolves a collection's name to a generation, from polls of the backends. Stores nothing else."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from gateway.backends import wire
from gateway.backends.failures import BackendFailed
from gateway.backends.wire import Backend, Backends
from gateway.collections.history import History
from services.chassis.background_tasks import Supervisor
from services.chassis.errors import Unavailable, UnknownCollection
from services.contracts.collections import BackendState, CollectionState, CollectionView, Unusable
from services.contracts.generations import name_of

logger = logging.getLogger(__name__)

POLL_TIMEOUT_S = 1.0
# Where every backend is needed, a busy one (encoding, merging) gets more time to answer.
PATIENT_POLL_TIMEOUT_S = 15.0


@dataclass(frozen=True, slots=True)
class BackendSnapshot:
    """A backend's last answer (`states` is None if it never answered), and whether the last poll succeeded.

    `late`: the last poll got no answer in its time.
    """

    states: tuple[CollectionState, ...] | None
    reachable: bool
    reason: str | None
    asked_at: float = float("-inf")
    unusable: tuple[Unusable, ...] = ()
    late: bool = False
    now: float | None = None  # the backend's clock when it answered


class Generations:
    """Keeps a snapshot of every storing backend, polled about once per second and whenever a name is unknown."""

    def __init__(self, backends: Backends) -> None:
        self._backends = backends
        self._snapshots: dict[str, BackendSnapshot] = {
            backend.name: BackendSnapshot(None, reachable=False, reason="not asked yet") for backend in backends.storing
        }
        self._histories: dict[str, History] = {}  # as of these snapshots
        self._refreshing = asyncio.Lock()
        self._refreshed_at = float("-inf")

    def start_polling(self, supervisor: Supervisor, every_s: float) -> None:
        """Starts one polling task for each backend, so that a hung backend does not delay the others."""
        for backend in self._backends.storing:
            supervisor.start("look", partial(self._poll_forever, backend, every_s))

    async def _poll_forever(self, backend: Backend, every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            await self._poll(backend)

    async def refresh(self, wait_s: float) -> None:
        """Polls every backend once and waits at most `wait_s`. Concurrent callers share the next poll."""
        asked_at = time.monotonic()
        # A caller with little time stops waiting; the time that a backend gets to answer does not depend on callers.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s), self._refreshing:
                if self._refreshed_at >= asked_at:
                    return
                started = time.monotonic()
                await asyncio.gather(*(self._poll(backend) for backend in self._backends.storing))
                self._refreshed_at = started

    async def _poll(self, backend: Backend, timeout_s: float = POLL_TIMEOUT_S) -> None:
        asked_at = time.monotonic()
        try:
            held = await wire.list_generations(backend, timeout_s)
        except BackendFailed as failure:
            # Its last answer is kept: a collection must not vanish while a backend restarts.
            known = self._snapshots[backend.name]
            reason = f"{failure.reason}: {_told(failure)}"
            if reason != known.reason:
                logger.warning("a backend cannot be polled", extra={"because": str(failure)})
            late = failure.reason == "timeout"
            self._keep(backend, replace(known, reachable=False, reason=reason, late=late))
        else:
            # A slow answer to an older poll must not overwrite a newer one.
            if asked_at >= self._snapshots[backend.name].asked_at:
                answered = BackendSnapshot(held.collections, True, None, asked_at, held.unusable, now=held.now)
                self._keep(backend, answered)

    def _keep(self, backend: Backend, snapshot: BackendSnapshot) -> None:
        self._snapshots[backend.name] = snapshot
        self._histories.clear()

    @property
    def snapshots(self) -> Mapping[str, BackendSnapshot]:
        """The last snapshot of each storing backend, by name."""
        return self._snapshots

    def names(self) -> list[str]:
        """Returns all collections of which any backend has a generation."""
        snapshots = self._snapshots.values()
        held = {name_of(state.generation) for snapshot in snapshots for state in snapshot.states or ()}
        return sorted(held | {name_of(record.generation) for snapshot in snapshots for record in snapshot.unusable})

    def unusable(self, name: str) -> dict[str, tuple[Unusable, ...]]:
        """Returns, by backend, the generations of a collection that it cannot open."""
        return {
            backend: tuple(record for record in snapshot.unusable if name_of(record.generation) == name)
            for backend, snapshot in self._snapshots.items()
        }

    def history(self, name: str) -> History:
        """Returns the generations of a collection in each backend, as of the last poll; one value until the next."""
        history = self._histories.get(name)
        if history is None:
            history = self._read_history(name)
            if history.generations:  # callers name others at will
                self._histories[name] = history
        return history

    def _read_history(self, name: str) -> History:
        return History(
            name,
            {
                backend: tuple(state for state in snapshot.states or () if name_of(state.generation) == name)
                for backend, snapshot in self._snapshots.items()
            },
            self._backends.by_default,
            unusable=frozenset(record.generation for ones in self.unusable(name).values() for record in ones),
            clocks={backend: snapshot.now for backend, snapshot in self._snapshots.items()},
        )

    def live(self, name: str) -> str | None:
        """Returns the live generation, as of the last poll."""
        return self.history(name).live

    async def fetch_history(self, name: str, wait_s: float) -> History:
        """Polls all backends and returns the generations of a collection. Raises as `searchable` does."""
        await self.refresh(wait_s)
        history = self.history(name)
        self.expect_known(history)
        return history

    async def searchable(self, name: str, wait_s: float) -> str:
        """Returns the live generation. Polls the backends if none is known.

        Raises UnknownCollection, or Unavailable if a backend that never answered could still have the collection.
        """
        if self.live(name) is None:
            await self.refresh(wait_s)
        live = self.live(name)
        if live is not None:
            return live
        if self.history(name).generations:
            raise UnknownCollection(
                f"Collection '{name}' has no published generation yet; POST /v1/collections/{name}/publish with the "
                "`build` that it was begun with first."
            )
        raise self._unknown(name)

    async def readable(self, name: str, wait_s: float) -> str:
        """Returns the generation to read documents from: the live one, or the newest while none is published."""
        if self.live(name) is None:
            history = await self.fetch_history(name, wait_s)
            return history.live or history.generations[-1]
        return await self.searchable(name, wait_s)

    def _unknown(self, name: str) -> UnknownCollection | Unavailable:
        silent = sorted(backend for backend, snapshot in self._snapshots.items() if snapshot.states is None)
        if silent:
            return Unavailable(
                f"No reachable backend knows collection '{name}', and {', '.join(silent)} has not answered since the "
                "gateway started; try again when it is back.",
                retry_after_s=1,
            )
        # Others are not named: the caller's key may be bound to some collections.
        return UnknownCollection(
            f"There is no collection '{name}'; GET /v1/collections lists all, PUT /v1/collections/{name} begins it."
        )

    def backends_of(self, generation: str) -> tuple[Backend, ...]:
        """Returns the backends that a generation lives on. Raises Unavailable if this gateway does not know one."""
        return self._backends.named(self.history(name_of(generation)).backends(generation))

    async def require(self, name: str, needed: Callable[[History], Iterable[str]], wait_s: float) -> History:
        """Polls all storing backends and returns the collection's history.

        Raises Unavailable unless all answer that are `needed` by the history: these get more time than others.
        """
        ends_at = time.monotonic() + wait_s
        await self.refresh(wait_s)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ends_at - time.monotonic()):
                late = [peer for peer in self._silent(name, needed) if self._snapshots[peer.name].late]
                await asyncio.gather(*(self._poll(backend, PATIENT_POLL_TIMEOUT_S) for backend in late))
        if gone := [f"{peer.name} ({self._snapshots[peer.name].reason})" for peer in self._silent(name, needed)]:
            raise Unavailable(
                f"This needs every backend of collection '{name}'; gone: {'; '.join(gone)}", retry_after_s=1
            )
        return self.history(name)

    def _silent(self, name: str, needed: Callable[[History], Iterable[str]]) -> list[Backend]:
        backends = self._backends.named(needed(self.history(name)))
        return [backend for backend in backends if not self._snapshots[backend.name].reachable]

    def possible_holders(self, name: str) -> set[str]:
        """Returns the backends that have anything of a collection, or have not answered since the gateway started."""
        history, unusable = self.history(name), self.unusable(name)
        return {
            backend
            for backend, snapshot in self._snapshots.items()
            if snapshot.states is None or history.by_backend[backend] or unusable[backend]
        }

    def expect_known(self, history: History) -> None:
        """Raises UnknownCollection, or Unavailable as `searchable` does, if no backend has anything of a collection."""
        if not history.generations:
            raise self._unknown(history.name)

    def view(self, name: str) -> CollectionView:
        """Returns the state of a collection in all backends."""
        families = {backend.name: backend.family for backend in self._backends.storing}
        history = self.history(name)
        return CollectionView(
            collection=name,
            live=history.live,
            building=history.building,
            previous=history.previous,
            backends=tuple(
                BackendState(
                    backend=backend,
                    family=families[backend],
                    reachable=self._snapshots[backend].reachable,
                    generations=states,
                    unusable=self.unusable(name)[backend],
                    reason=self._snapshots[backend].reason,
                )
                for backend, states in history.by_backend.items()
            ),
        )


def _told(failure: BackendFailed) -> str:
    """Returns what callers are shown of a failed poll: an error over all collections may name those of others."""
    if failure.status is None or failure.status in (401, 403):  # worded by the gateway itself
        return failure.detail
    return f"HTTP {failure.status} to GET /v1/collections; the gateway's log has its sentence."
