"""Owns the replicas of one backend: finds their addresses, and chooses one for each call."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Literal

from prometheus_client import Counter

from gateway.backends.replica import Peer, Replica
from gateway.backends.resilience import State
from gateway.backends.transport import Endpoints
from services.chassis.background_tasks import Supervisor

# Seconds between two resolutions of a name, and while it has no address.
RESOLVE_S = 5.0
UNRESOLVED_S = 1.0


class Replicas:
    """Owns all replicas of one backend, one for each address of its name. A removed one still ends its calls."""

    def __init__(self, peer: Peer, endpoints: Endpoints, supervisor: Supervisor, opened: Counter) -> None:
        """`opened` counts how often their breakers open."""
        self._peer = peer
        self._endpoints = endpoints
        self._supervisor = supervisor
        self._opened = opened
        self._by_address: dict[str, Replica] = {}
        self._leaving: list[Replica] = []
        self._turn = 0

    def __iter__(self) -> Iterator[Replica]:
        return iter(self._by_address.values())

    async def open(self) -> None:
        """Resolves the addresses, and keeps resolving them in the background."""
        with contextlib.suppress(OSError, TimeoutError):  # the background tries again
            async with asyncio.timeout(self._peer.connect_s):
                await self._look_up()
        self._supervisor.start("addresses", self._keep_looking_up)

    async def close(self) -> None:
        """Closes all connections."""
        await asyncio.gather(*(replica.close() for replica in (*self._by_address.values(), *self._leaving)))

    @property
    def state(self) -> State:
        """Best state among the replicas; open while the name has no address."""
        states = {replica.breaker.state for replica in self}
        order: tuple[State, ...] = ("closed", "half-open")
        return next((state for state in order if state in states), "open")

    def for_call(self, *, may_probe: bool) -> Replica | None:
        """Returns the replica for a call, or None if every breaker refuses it.

        With `may_probe`, a replica in half-open state gets a single call first, which may fail. Among the others the
        one with the fewest calls in flight is chosen.
        """
        return self._next(lambda one: _rank(one, "first" if may_probe else "last"))

    def for_retry(self, than: Replica) -> Replica | None:
        """Returns another replica for the retry of a call, one known to answer, or None."""
        return self._next(lambda one: None if one is than or one.suspect else _rank(one, "never"))

    def for_poll(self, than: Replica | None = None) -> Replica | None:
        """Returns the replica for a background poll, open breakers or not; `than` is the one already asked."""
        rest = [replica for replica in self._round_robin() if replica is not than]
        return min(rest, key=lambda one: (one.breaker.state != "closed", one.suspect, one.in_flight), default=None)

    def _next(self, rank: Callable[[Replica], int | None]) -> Replica | None:
        ranked = [(place, one.in_flight, one) for one in self._round_robin() if (place := rank(one)) is not None]
        ranked.sort(key=lambda item: item[:2])
        return next((one for *_, one in ranked if one.breaker.admit()), None)

    def _round_robin(self) -> list[Replica]:
        replicas = list(self._by_address.values())
        if len(replicas) > 1:
            self._turn = (self._turn + 1) % len(replicas)
        return replicas[self._turn :] + replicas[: self._turn] if len(replicas) > 1 else replicas

    def _others_answer(self, replica: Replica) -> bool:
        return any(one is not replica and one.breaker.state == "closed" and not one.suspect for one in self)

    async def _keep_looking_up(self) -> None:
        while True:
            await asyncio.sleep(RESOLVE_S if self._by_address else UNRESOLVED_S)
            with contextlib.suppress(OSError):  # the previous addresses are kept
                await self._look_up()

    async def _look_up(self) -> None:
        addresses = await self._endpoints.addresses()
        if not addresses:
            return
        for address in [known for known in self._by_address if known not in addresses]:
            self._leaving.append(self._by_address.pop(address))
        for address in addresses:
            if address not in self._by_address:
                calls, liveness = self._endpoints.transport(address), self._endpoints.transport(address)
                replica = Replica(self._peer, calls, liveness, self._others_answer, self._supervisor, self._opened)
                self._by_address[address] = replica
        self._turn = 0
        for replica in [left for left in self._leaving if not left.in_flight]:
            self._leaving.remove(replica)
            await replica.close()


def _rank(replica: Replica, half_open: Literal["first", "last", "never"]) -> int | None:
    match replica.breaker.state:
        case "closed":
            return 2 if replica.suspect else 1
        case "half-open" if half_open != "never":
            return 0 if half_open == "first" else 3
        case _:
            return None
