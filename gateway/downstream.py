"""Calls to the backends: one client each, bounded by the caller's budget, repeated at most once. Its only httpx."""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport
from pydantic import ValidationError

from gateway.failures import BackendFailed
from gateway.resilience import Breaker, RetryBudget, backoff_s
from gateway.settings import BackendAddress, Family
from services.chassis.caching import NO_STORE, fresh_wanted
from services.chassis.deadlines import DEADLINE_HEADER
from services.chassis.telemetry import REQUEST_ID_HEADER, request_id
from services.contracts.base import Wire
from services.contracts.problem import Problem

logger = logging.getLogger(__name__)

# Below what every server of ours keeps an idle connection (75 s), or we would send on one that it just closed.
KEEP_ALIVE_S = 30.0
CONNECTIONS = 128
PING_S = 0.5
WORTH_REPEATING = (502, 503)

Answer = TypeVar("Answer", bound=Wire)
TransportFor = Callable[[str, BackendAddress], httpx.AsyncBaseTransport]


def over_sockets(_: str, __: BackendAddress) -> httpx.AsyncBaseTransport:
    """The production transport. httpx's own pool dies after random cancellations (encode/httpcore 1093); aiohttp's
    does not (tests/faults/test_cancellation.py), at a fifth of the CPU.
    """
    return AiohttpTransport(limits=httpx.Limits(max_connections=CONNECTIONS, keepalive_expiry=KEEP_ALIVE_S))


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a backend. `reads` changes nothing there, so it may be repeated. `timeout_s` bounds all of it."""

    method: str
    path: str
    timeout_s: float
    body: Wire | None = None
    reads: bool = False


class Backend:
    """One backend: its client, its breaker, its retry budget, and the watch that finds out when it is back."""

    def __init__(
        self, name: str, address: BackendAddress, transport: httpx.AsyncBaseTransport, connect_s: float
    ) -> None:
        self.name = name
        self.family: Family = address.family
        self.breaker = Breaker(time.monotonic)
        # Only connecting has a bound of its own: `_attempt` bounds the whole call, the wait for a connection included.
        timeout = httpx.Timeout(None, connect=connect_s)
        self._client = httpx.AsyncClient(transport=transport, base_url=address.url, timeout=timeout, trust_env=False)
        self._budget = RetryBudget()
        self._jitter = random.Random()
        self._usual_s = 0.0
        self._last: BackendFailed | None = None
        self._watch: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """Ends the watch and closes all connections."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        await self._client.aclose()

    async def ask(self, call: Call, answer: type[Answer]) -> Answer:
        """The backend's answer to a call. Raises BackendFailed; while the breaker is open, at once."""
        return self._parsed(await self._guarded(call), answer)

    async def tell(self, call: Call) -> None:
        """A call whose answer has no body. Raises BackendFailed."""
        await self._guarded(call)

    async def look(self, call: Call, answer: type[Answer]) -> Answer:
        """Like `ask`, but past the breaker and never repeated: for the background, which must see a backend return."""
        return self._parsed(await self._attempt(call, call.timeout_s), answer)

    async def _guarded(self, call: Call) -> bytes:
        if not self.breaker.admit():
            raise self._not_asked()
        ends_at = time.monotonic() + call.timeout_s
        self._budget.called()
        try:
            return await self._recorded(call, call.timeout_s)
        except BackendFailed as failure:
            wait_s = self._wait_before_repeat(call, failure)
            left_s = ends_at - time.monotonic()
            # Not worth it when what remains would not suffice for a usual answer.
            if wait_s is None or left_s <= wait_s + self._usual_s or not self._budget.take():
                raise
        await asyncio.sleep(wait_s)
        return await self._recorded(call, ends_at - time.monotonic())

    async def _recorded(self, call: Call, timeout_s: float) -> bytes:
        """One attempt, its outcome told to the breaker."""
        started = time.monotonic()
        try:
            content = await self._attempt(call, timeout_s)
        except BackendFailed as failure:
            match failure.reason:
                case "refused":
                    self.breaker.succeeded()
                case "overloaded":
                    self.breaker.abandoned()
                case "timeout":
                    # Slow, or hung? The caller may have given it little time; the watch asks whether it lives.
                    self.breaker.abandoned()
                    self._last = failure
                    self._look_after()
                case "failed" if not call.reads and failure.status is not None:
                    # It answers, and cannot write (a full disk makes stores read-only): no reason to stop reading.
                    self.breaker.abandoned()
                case _:
                    self.breaker.failed()
                    self._last = failure
                    if self.breaker.state == "open":
                        self._look_after()
            raise
        except asyncio.CancelledError:
            self.breaker.abandoned()
            raise
        self.breaker.succeeded()
        self._usual_s += 0.1 * (time.monotonic() - started - self._usual_s)
        return content

    def _wait_before_repeat(self, call: Call, failure: BackendFailed) -> float | None:
        """Seconds to wait before the one repeat, or None where there must be none (never after a timeout)."""
        if not call.reads or self.breaker.state != "closed":
            return None
        if failure.reason == "overloaded":
            return failure.retry_after_s
        if failure.reason == "unreachable" or failure.status in WORTH_REPEATING:
            return backoff_s(self._jitter)
        return None

    async def _attempt(self, call: Call, timeout_s: float) -> bytes:
        headers = {DEADLINE_HEADER: str(max(1, int(timeout_s * 1000))), REQUEST_ID_HEADER: request_id()}
        if fresh_wanted():
            headers["cache-control"] = NO_STORE
        content: bytes | None = None
        if call.body is not None:
            # Without what is at its default, or a batch of 8 MB would grow on its way.
            content = call.body.model_dump_json(exclude_defaults=True).encode()
            headers["content-type"] = "application/json"
        try:
            async with asyncio.timeout(timeout_s):
                response = await self._client.request(call.method, call.path, content=content, headers=headers)
        except TimeoutError as error:
            raise BackendFailed(self.name, "timeout", f"no answer within {timeout_s:.2f} s.") from error
        except (httpx.HTTPError, aiohttp.ClientError) as error:
            raise self._broken(error) from error
        if response.status_code < 300:
            return response.content
        raise self._answered_with_an_error(response)

    def _broken(self, error: httpx.HTTPError | aiohttp.ClientError) -> BackendFailed:
        cause = error.__cause__ or error
        what = type(cause).__name__  # its message names addresses, which are not our callers' business
        match error:
            # The aiohttp transport calls every lost connection a ConnectTimeout; its cause tells which one it was.
            case httpx.ConnectError():
                return BackendFailed(self.name, "unreachable", f"no connection ({what}).")
            case httpx.ConnectTimeout() if not isinstance(cause, TimeoutError | httpx.ConnectTimeout):
                return BackendFailed(self.name, "unreachable", f"no connection ({what}).")
            case httpx.TimeoutException():
                return BackendFailed(self.name, "timeout", f"no answer ({what}).")
            case _:
                return BackendFailed(self.name, "failed", f"the answer broke off or made no sense ({what}).")

    def _answered_with_an_error(self, response: httpx.Response) -> BackendFailed:
        status = response.status_code
        kind: str | None = None
        try:
            problem = Problem.model_validate_json(response.content)
            detail, kind = problem.detail, problem.type.removeprefix("urn:problem:")
        except ValidationError:
            detail = f"HTTP {status} without a problem to explain it."
        after = response.headers.get("retry-after", "")
        retry_after_s = float(after) if after.isascii() and after.isdigit() and len(after) < 6 else None
        match status:
            case 429:
                return BackendFailed(
                    self.name, "overloaded", detail, status=status, kind=kind, retry_after_s=retry_after_s
                )
            case 504:
                return BackendFailed(self.name, "timeout", detail, status=status, kind=kind)
            case _ if status < 500:
                return BackendFailed(self.name, "refused", detail, status=status, kind=kind)
            case _:
                return BackendFailed(self.name, "failed", detail, status=status, kind=kind)

    def _parsed(self, content: bytes, answer: type[Answer]) -> Answer:
        try:
            return answer.model_validate_json(content)
        except ValidationError as error:
            self.breaker.failed()
            first = error.errors(include_input=False, include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            detail = f"its answer is no {answer.__name__} ({where}: {first['msg']})."
            raise BackendFailed(self.name, "failed", detail) from error

    def _not_asked(self) -> BackendFailed:
        last = self._last
        if last is None or self.breaker.state == "half-open":
            return BackendFailed(self.name, "unreachable", "not asked: it is being tried out after a failure.")
        return BackendFailed(self.name, last.reason, f"not asked: it failed a moment ago ({last.detail})")

    def _look_after(self) -> None:
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._until_it_answers())

    async def _until_it_answers(self) -> None:
        """Opens the breaker if the process does not even answer its liveness probe, and asks it until it does.

        No request of a caller's is spent on finding out, and short deadlines of some callers close nothing to others.
        """
        if self.breaker.state != "open" and not await self._alive():
            self.breaker.trip()
        if self.breaker.state == "open":
            because = self._last.__cause__ or self._last if self._last else None
            logger.warning("backend set aside", extra={"backend": self.name, "because": repr(because)})
        while self.breaker.state == "open":
            await asyncio.sleep(self._jitter.uniform(0.5, 1.0) * PING_S)
            if await self._alive():
                self.breaker.process_answers()

    async def _alive(self) -> bool:
        try:
            await self._attempt(Call("GET", "/livez", PING_S), PING_S)
        except BackendFailed as failure:
            return failure.status is not None and failure.status < 500
        return True
