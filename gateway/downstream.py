"""Calls to the backends: bounded by the caller's budget, repeated at most once, where possible on another replica."""

import asyncio
import random
import time

from gateway.exchange import Answer, Call, Parse, Peer, Value
from gateway.failures import BackendFailed
from gateway.replicas import Replica, Replicas
from gateway.resilience import RetryBudget, State, backoff_s
from gateway.settings import BackendAddress
from gateway.sockets import CONNECTIONS, Endpoints
from services.chassis.supervised import Supervisor

# As many as can be lost at once with a replica that breaks.
REPEATS = CONNECTIONS / 2


class Backend:
    """One backend: its replicas and its retry budget."""

    def __init__(
        self, name: str, address: BackendAddress, endpoints: Endpoints, connect_s: float, supervisor: Supervisor
    ) -> None:
        self.name = name
        self.family = address.family
        self._replicas = Replicas(Peer(name, address.url, connect_s), endpoints, supervisor)
        self._budget = RetryBudget(most=REPEATS)
        self._jitter = random.Random()
        self._usual_s = 0.0

    async def open(self) -> None:
        """Looks up where the replicas are, once now and then in the background."""
        await self._replicas.open()

    async def close(self) -> None:
        """Ends the watches and closes all connections."""
        await self._replicas.close()

    @property
    def state(self) -> State:
        """What the next call meets: closed while any replica answers, open while none does."""
        return self._replicas.state

    async def ask(self, call: Call, answer: type[Answer]) -> Answer:
        """The backend's answer to a call. Raises BackendFailed; while all breakers are open, at once."""
        return await self._guarded(call, answer.from_answer)

    async def tell(self, call: Call) -> None:
        """A call whose answer has no body. Raises BackendFailed."""
        await self._guarded(call, bytes)

    async def look(self, call: Call, answer: type[Answer]) -> Answer:
        """Like `ask`, but past the breakers: for the background, which must see a backend return.

        Another replica is asked where the first one fails; nothing else repeats it.
        """
        first = self._replicas.for_a_look()
        if first is None:
            raise self._not_asked()
        ends_at = time.monotonic() + call.timeout_s
        try:
            return await first.attempt(call, answer.from_answer, call.timeout_s)
        except BackendFailed as failure:
            other = self._replicas.for_a_look(first)
            # Alone, a busy one is waited for by callers who have the time.
            if other is not None and failure.reason == "timeout":
                first.suspected()
            left_s = ends_at - time.monotonic()
            if other is None or left_s <= self._usual_s:
                raise
        return await other.attempt(call, answer.from_answer, left_s)

    async def _guarded(self, call: Call, parse: Parse[Value]) -> Value:
        replica = self._replicas.admitted(may_probe=call.reads)
        if replica is None:
            raise self._not_asked()
        ends_at = time.monotonic() + call.timeout_s
        self._budget.called()
        try:
            return await self._timed(replica, call, parse, call.timeout_s)
        except BackendFailed as failure:
            other = self._replicas.another(replica)
            wait_s = self._wait_before_repeat(call, failure, replica, other)
            left_s = ends_at - time.monotonic()
            # Not worth it when what remains would not suffice for a usual answer.
            repeated = wait_s is not None and left_s > wait_s + self._usual_s and self._budget.take()
            # Of a lone replica counts how the call ends: its address may stand for several, one of which is broken.
            if other is not None or not repeated:
                replica.failed(failure, reads=call.reads)
            if not repeated or wait_s is None:
                raise
        if wait_s:
            await asyncio.sleep(wait_s)
        second = other or replica
        try:
            return await self._timed(second, call, parse, ends_at - time.monotonic())
        except BackendFailed as failure:
            second.failed(failure, reads=call.reads)
            raise

    async def _timed(self, replica: Replica, call: Call, parse: Parse[Value], timeout_s: float) -> Value:
        started = time.monotonic()
        value = await replica.attempt(call, parse, timeout_s)
        self._usual_s += 0.1 * (time.monotonic() - started - self._usual_s)
        return value

    def _wait_before_repeat(
        self, call: Call, failure: BackendFailed, failed: Replica, other: Replica | None
    ) -> float | None:
        """Seconds to wait before the one repeat, or None where there must be none.

        Never after a timeout: the time is spent. A write only where nothing of it was sent, and by another replica.
        """
        if other is None and failed.breaker.state != "closed":
            return None
        if failure.unsent:
            return 0.0 if other is not None else backoff_s(self._jitter) if self._repeatable(call, failure) else None
        if not self._repeatable(call, failure):
            return None
        if failure.reason == "overloaded":
            return failure.retry_after_s
        return 0.0 if other is not None else backoff_s(self._jitter)

    @staticmethod
    def _repeatable(call: Call, failure: BackendFailed) -> bool:
        return call.reads and failure.reason in ("unreachable", "failed", "overloaded")

    def _not_asked(self) -> BackendFailed:
        last = next((replica.last for replica in self._replicas if replica.last is not None), None)
        if not list(self._replicas):
            return BackendFailed(self.name, "unreachable", "its name has no address; see GATEWAY_BACKENDS.")
        if last is None or self.state == "half-open":
            return BackendFailed(self.name, "unreachable", "not asked: it is being tried out after a failure.")
        return BackendFailed(self.name, last.reason, f"not asked: it failed a moment ago ({last.detail})")
