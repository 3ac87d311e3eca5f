"""Which generation a collection's name means. Nothing is kept here that the backends do not say of themselves."""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from gateway import backends as wire
from gateway.backends import Backends
from gateway.downstream import Backend
from gateway.failures import BackendFailed
from gateway.history import History
from services.chassis.errors import Unavailable, UnknownCollection
from services.chassis.supervised import Supervisor
from services.contracts.collections import BackendState, CollectionState, CollectionView, Unusable
from services.contracts.generations import name_of

LOOK_S = 1.0
# Where every backend is needed, one that is busy (encoding, merging) gets the time to say so.
PATIENT_LOOK_S = 15.0


@dataclass(frozen=True, slots=True)
class Look:
    """What a backend last said that it holds (None: it never answered), and whether it answered the last time."""

    states: tuple[CollectionState, ...] | None
    reachable: bool
    reason: str | None
    asked_at: float = float("-inf")
    unusable: tuple[Unusable, ...] = ()


class Generations:
    """The view of all storing backends, refreshed about once a second and whenever a name is not known."""

    def __init__(self, backends: Backends) -> None:
        self._backends = backends
        self._looks: dict[str, Look] = {
            backend.name: Look(None, reachable=False, reason="not asked yet") for backend in backends.storing
        }
        self._refreshing = asyncio.Lock()
        self._refreshed_at = float("-inf")

    def keep_fresh(self, supervisor: Supervisor, every_s: float) -> None:
        """Looks for ever, at each backend on its own, so that a hung one does not hold up what the others say."""
        for backend in self._backends.storing:
            supervisor.start("look", partial(self._keep_looking, backend, every_s))

    async def _keep_looking(self, backend: Backend, every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            await self._look(backend, LOOK_S)

    async def refresh(self, wait_s: float, look_s: float = LOOK_S) -> None:
        """Looks at every backend once, now, and waits so long for it. Who comes meanwhile shares the next look."""
        asked_at = time.monotonic()
        # A caller in a hurry gives up waiting; what a backend may take to answer does not depend on callers.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s), self._refreshing:
                if self._refreshed_at >= asked_at:
                    return
                started = time.monotonic()
                await asyncio.gather(*(self._look(backend, look_s) for backend in self._backends.storing))
                self._refreshed_at = started

    async def _look(self, backend: Backend, look_s: float) -> None:
        asked_at = time.monotonic()
        try:
            held = await wire.held(backend, look_s)
        except BackendFailed as failure:
            # What it said last is kept: a collection does not vanish with a restart.
            known = self._looks[backend.name]
            reason = f"{failure.reason}: {failure.detail}"
            self._looks[backend.name] = replace(known, reachable=False, reason=reason)
        else:
            # A slow answer to an older look must not overwrite what a later one has seen.
            if asked_at >= self._looks[backend.name].asked_at:
                self._looks[backend.name] = Look(held.collections, True, None, asked_at, held.unusable)

    @property
    def looks(self) -> Mapping[str, Look]:
        """The last look at each storing backend, by its name."""
        return self._looks

    def names(self) -> list[str]:
        """All collections of which any backend holds a generation."""
        looks = self._looks.values()
        held = {name_of(state.generation) for look in looks for state in look.states or ()}
        return sorted(held | {name_of(one.generation) for look in looks for one in look.unusable})

    def unusable(self, name: str) -> dict[str, tuple[Unusable, ...]]:
        """What each backend holds of a collection and cannot open."""
        return {
            backend: tuple(one for one in look.unusable if name_of(one.generation) == name)
            for backend, look in self._looks.items()
        }

    def history(self, name: str) -> History:
        """What each backend holds of a collection, as far as we know."""
        return History(
            name,
            {
                backend: tuple(state for state in look.states or () if name_of(state.generation) == name)
                for backend, look in self._looks.items()
            },
            unusable=frozenset(one.generation for ones in self.unusable(name).values() for one in ones),
        )

    def live(self, name: str) -> str | None:
        """The generation that searches see, as far as we know."""
        return self.history(name).live

    async def known(self, name: str, wait_s: float) -> History:
        """What each backend holds of a collection; asks all of them anew. Raises as `searchable` does."""
        await self.refresh(wait_s)
        history = self.history(name)
        if not history.generations:
            raise self._unknown(name)
        return history

    async def searchable(self, name: str, wait_s: float) -> str:
        """The live generation; asks the backends before it says that there is none.

        Raises UnknownCollection, or Unavailable while a backend that never answered could still know the name.
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
        """Where documents are read: the live generation, or the newest while none was published."""
        if self.live(name) is None:
            history = await self.known(name, wait_s)
            return history.live or history.generations[-1]
        return await self.searchable(name, wait_s)

    def _unknown(self, name: str) -> UnknownCollection | Unavailable:
        silent = sorted(backend for backend, look in self._looks.items() if look.states is None)
        if silent:
            return Unavailable(
                f"No reachable backend knows collection '{name}', and {', '.join(silent)} has not answered since the "
                "gateway started; try again when it is back.",
                retry_after_s=1,
            )
        known = ", ".join(self.names()) or "none yet"
        return UnknownCollection(
            f"There is no collection '{name}'; known: {known}. PUT /v1/collections/{name} begins it."
        )

    async def require_all(self, wait_s: float) -> None:
        """Looks anew; raises Unavailable unless every storing backend answers: building needs all of them."""
        await self.refresh(wait_s, PATIENT_LOOK_S)
        gone = [f"{backend} ({look.reason})" for backend, look in self._looks.items() if not look.reachable]
        if gone:
            raise Unavailable(f"Every storing backend is needed for this; gone: {'; '.join(gone)}", retry_after_s=1)

    def view(self, name: str) -> CollectionView:
        """A collection as all backends see it."""
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
                    reachable=self._looks[backend].reachable,
                    generations=states,
                    unusable=self.unusable(name)[backend],
                    reason=self._looks[backend].reason,
                )
                for backend, states in history.by_backend.items()
            ),
        )
