"""Calls backends: bounded by the caller's time, retried at most once, if possible on another replica."""

import asyncio
import random
import time

from pydantic import SecretStr

from gateway.backends.exchange import Answer, Call, Parse, Peer, Value
from gateway.backends.failures import BackendFailed
from gateway.backends.replicas import Replica, Replicas
from gateway.backends.resilience import RetryBudget, State, backoff_s
from gateway.backends.sockets import CONNECTIONS
from gateway.backends.transport import Endpoints
from gateway.settings import BackendAddress
from services.chassis.background_tasks import Supervisor
from services.chassis.instruments import Instruments

# As many calls as one failing replica can lose at once.
MOST_RETRIES = CONNECTIONS / 2


class Backend:
    """Owns one backend: its replicas and its retry budget."""

    def __init__(
        self,
        name: str,
        address: BackendAddress,
        endpoints: Endpoints,
        connect_s: float,
        supervisor: Supervisor,
        instruments: Instruments,
        token: SecretStr | None = None,
    ) -> None:
        self.name = name
        self.family = address.family
        opened = instruments.breakers_opened.labels(name)
        self._replicas = Replicas(Peer(name, address.url, connect_s, token), endpoints, supervisor, opened)
        self._budget = RetryBudget(most=MOST_RETRIES)
        self._jitter = random.Random()
        self._average_s = 0.0

    async def open(self) -> None:
        """Resolves the replicas' addresses once, then keeps resolving them in the background."""
        await self._replicas.open()

    async def close(self) -> None:
        """Stops the background watches and closes all connections."""
        await self._replicas.close()

    @property
    def state(self) -> State:
        """State of the backend's breakers: closed while any replica answers, open while none does."""
        return self._replicas.state

    async def request(self, call: Call, answer: type[Answer]) -> Answer:
        """Sends a call and returns the parsed answer. Raises BackendFailed, at once while all breakers are open."""
        return await self._call_with_retry(call, answer.from_answer)

    async def send(self, call: Call) -> None:
        """Sends a call whose answer has no body. Raises BackendFailed."""
        await self._call_with_retry(call, bytes)

    async def poll(self, call: Call, answer: type[Answer]) -> Answer:
        """Sends a call even while breakers are open: background polls must notice when a backend returns.

        Retries once, on another replica. Raises BackendFailed.
        """
        first = self._replicas.for_poll()
        if first is None:
            raise self._unavailable()
        ends_at = time.monotonic() + call.timeout_s
        try:
            return await first.attempt(call, answer.from_answer, call.timeout_s)
        except BackendFailed as failure:
            other = self._replicas.for_poll(first)
            # A lone replica may just be busy: callers with more time can still wait for it.
            if other is not None and failure.reason == "timeout":
                first.mark_suspect()
            left_s = ends_at - time.monotonic()
            if other is None or left_s <= self._average_s:
                raise
        return await other.attempt(call, answer.from_answer, left_s)

    async def _call_with_retry(self, call: Call, parse: Parse[Value]) -> Value:
        replica = self._replicas.for_call(may_probe=call.reads)
        if replica is None:
            raise self._unavailable()
        ends_at = time.monotonic() + call.timeout_s
        self._budget.called()
        try:
            return await self._measured(replica, call, parse, call.timeout_s)
        except BackendFailed as failure:
            other = self._replicas.for_retry(replica)
            wait_s = self._wait_before_retry(call, failure, replica, other)
            left_s = ends_at - time.monotonic()
            # No retry when the time left is below the average answer time.
            repeated = wait_s is not None and left_s > wait_s + self._average_s and self._budget.take()
            # For a lone replica only the final outcome counts: its address may stand for several replicas, one broken.
            if other is not None or not repeated:
                replica.failed(failure, reads=call.reads)
            if not repeated or wait_s is None:
                raise
        if wait_s:
            await asyncio.sleep(wait_s)
        second = other or replica
        try:
            return await self._measured(second, call, parse, ends_at - time.monotonic())
        except BackendFailed as failure:
            second.failed(failure, reads=call.reads)
            raise

    async def _measured(self, replica: Replica, call: Call, parse: Parse[Value], timeout_s: float) -> Value:
        started = time.monotonic()
        value = await replica.attempt(call, parse, timeout_s)
        self._average_s += 0.1 * (time.monotonic() - started - self._average_s)
        return value

    def _wait_before_retry(
        self, call: Call, failure: BackendFailed, failed: Replica, other: Replica | None
    ) -> float | None:
        """Returns the seconds to wait before the one retry, or None for no retry.

        Never retries a timeout: the time is spent. Nor a refusal for overload: a search would hold its slot while it
        waits, and the limit on searches would not see the refusal. Retries a write only if nothing was sent, on another
        replica.
        """
        if other is None and failed.breaker.state != "closed":
            return None
        if failure.unsent:
            return 0.0 if other is not None else backoff_s(self._jitter) if self._may_retry(call, failure) else None
        if not self._may_retry(call, failure):
            return None
        return 0.0 if other is not None else backoff_s(self._jitter)

    @staticmethod
    def _may_retry(call: Call, failure: BackendFailed) -> bool:
        return call.reads and failure.reason in ("unreachable", "failed")

    def _unavailable(self) -> BackendFailed:
        last = next((replica.last for replica in self._replicas if replica.last is not None), None)
        if not list(self._replicas):
            return BackendFailed(self.name, "unreachable", "its name has no address; see GATEWAY_BACKENDS.")
        if last is None or self.state == "half-open":
            return BackendFailed(self.name, "unreachable", "not asked: it is being tried out after a failure.")
        return BackendFailed(self.name, last.reason, f"not asked: it failed a moment ago ({last.detail})")
