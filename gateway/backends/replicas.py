"""Owns the replicas of one backend: finds them, tracks which of them answer, and chooses one for each call."""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable, Iterator
from typing import Literal

from prometheus_client import Counter

from gateway.backends.exchange import LIVENESS, Call, Parse, Peer, Value, exchange
from gateway.backends.failures import BackendFailed
from gateway.backends.resilience import Breaker, Probation, State
from gateway.backends.transport import Endpoints, Transport
from services.chassis.background_tasks import Supervisor

logger = logging.getLogger(__name__)

PING_S = 0.5
# For this long a replica whose call timed out may be busy, not dead: an event loop under overload answers late.
BUSY_S = 1.5
# Seconds between two resolutions of a name, and while it has no address.
RESOLVE_S = 5.0
UNRESOLVED_S = 1.0
# Consecutive failures that open a replica's breaker, however many successes are in the breaker's window.
CONSECUTIVE_FAILURES = 5


class Replica:
    """Owns one address of a backend: its connections, its breaker, and the watch that probes it until it answers."""

    def __init__(
        self,
        peer: Peer,
        transport: Transport,
        liveness: Transport,
        others_answer: Callable[["Replica"], bool],
        supervisor: Supervisor,
        opened: Counter,
    ) -> None:
        """`liveness`: for probes alone. Behind calls that use every connection of `transport` they would be late.

        `opened` counts how often the breaker opens.
        """
        self.breaker = Breaker(time.monotonic, self._on_open)
        self._opened = opened
        self.in_flight = 0
        self.suspect = False  # a call timed out, and the liveness probe has not answered since
        self.last: BackendFailed | None = None
        self._peer = peer
        self._transport = transport
        self._liveness = liveness
        self._others_answer = others_answer
        self._supervisor = supervisor
        self._jitter = random.Random()
        self._watch: asyncio.Task[None] | None = None
        self._consecutive_failures = 0
        self._probation = Probation(time.monotonic)
        self._answered_at = float("-inf")

    async def attempt(self, call: Call, parse: Parse[Value], timeout_s: float) -> Value:
        """Sends a call. Records a success or a cancellation; the caller records a failure, or retries."""
        self.in_flight += 1
        try:
            value = await exchange(self._peer, self._transport, call, parse, timeout_s)
        except asyncio.CancelledError:
            self.breaker.abandoned()
            raise
        finally:
            self.in_flight -= 1
        self._answered()
        return value

    def failed(self, failure: BackendFailed, *, reads: bool) -> None:
        """Records a failure according to what it says about this replica."""
        match failure.reason:
            case "refused":
                self._answered()
            case "overloaded":
                self._answered_at = time.monotonic()
                self.breaker.abandoned()
            case "timeout":
                # Slow or hung: the caller may have given it little time, so the watch probes whether it is alive.
                self.last = failure
                self.breaker.abandoned()
                self.mark_suspect()
            case "failed" if not reads and failure.status is not None:
                # It answers but cannot write (a full disk makes stores read-only): reads go on.
                self.breaker.abandoned()
            case _:
                self.last = failure
                self._consecutive_failures += 1
                self.breaker.failed()
                gone = failure.unsent and self._others_answer(self)
                if self.breaker.state == "closed" and (gone or self._consecutive_failures >= CONSECUTIVE_FAILURES):
                    self.breaker.trip()

    def mark_suspect(self) -> None:
        """Prefers other replicas until this one has answered its liveness probe. Called after a timeout."""
        self.suspect = True
        self._start_watch()

    async def close(self) -> None:
        """Stops the watch and closes all connections."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        await asyncio.gather(self._transport.aclose(), self._liveness.aclose())

    def _answered(self) -> None:
        self._answered_at = time.monotonic()
        if self.breaker.state == "half-open":
            self._probation.back()
        self._consecutive_failures = 0
        self.breaker.succeeded()

    def _on_open(self) -> None:
        self._opened.inc()
        self._start_watch()

    def _start_watch(self) -> None:
        if self._watch is None or self._watch.done():
            self._watch = self._supervisor.start("breaker", self._watch_until_alive)

    async def _watch_until_alive(self) -> None:
        """Opens the breaker if the process does not answer its liveness probe, then probes until it does.

        So no caller's request serves as a probe, and short deadlines of some callers do not open the breaker for all.
        """
        if self.breaker.state != "open" and not await self._answers_within(BUSY_S):
            self.breaker.trip()
        self.suspect = False
        if self.breaker.state != "open":
            return
        because = self.last.__cause__ or self.last if self.last else None
        logger.warning("backend set aside", extra={"backend": self._peer.name, "because": repr(because)})
        again_at = time.monotonic() + self._probation.set_aside()
        while self.breaker.state == "open":
            await asyncio.sleep(self._jitter.uniform(0.5, 1.0) * PING_S)
            # If no other replica answers, a live one gets a call as soon as its breaker allows it.
            if await self._is_alive(PING_S) and (time.monotonic() >= again_at or not self._others_answer(self)):
                self.breaker.allow_probe()

    async def _answers_within(self, seconds: float) -> bool:
        """Returns whether this replica answers a probe or a call.

        Two probes at once, and calls answered meanwhile count too: where an address stands for several replicas, a
        single hung one must not open the breaker.
        """
        asked_at = time.monotonic()
        probes = [asyncio.ensure_future(self._is_alive(seconds)) for _ in range(2)]
        try:
            for probe in asyncio.as_completed(probes):
                if await probe or self._answered_at >= asked_at:
                    return True
            return False
        finally:
            for one in probes:
                one.cancel()
            await asyncio.gather(*probes, return_exceptions=True)

    async def _is_alive(self, within_s: float) -> bool:
        try:
            await exchange(self._peer, self._liveness, Call("GET", LIVENESS, within_s), bytes, within_s)
        except BackendFailed as failure:
            return failure.status is not None and failure.status < 500
        return True


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
