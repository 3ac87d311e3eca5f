"""Owns one address of a backend: sends calls to it, parses the answers and the times that they report, and tracks
whether it answers.

Every fault on the way is a BackendFailed.
"""

import asyncio
import logging
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from prometheus_client import Counter
from pydantic import SecretStr, ValidationError

from gateway.backends.failures import BackendFailed
from gateway.backends.resilience import Breaker, Probation
from services.chassis.background_tasks import Supervisor
from services.chassis.calls.transport import (
    CACHED_RESULTS,
    RETRY_AFTER,
    SERVER_TIMING,
    ConnectionLost,
    ConnectTimedOut,
    Incoming,
    NotConnected,
    NotTrusted,
    Outgoing,
    Probe,
    Transport,
)
from services.chassis.deadlines import DEADLINE_HEADER
from services.chassis.errors import InsufficientStorage
from services.chassis.requests.callers import CLIENT_HEADER
from services.chassis.requests.spans import annotate, span, trace_headers
from services.chassis.requests.telemetry import (
    NO_STORE,
    REQUEST_ID_HEADER,
    no_store_requested,
    pass_on_lookups,
    request_id,
)
from services.contracts.base import Wire
from services.contracts.problem import Problem

logger = logging.getLogger(__name__)

LIVENESS = "/livez"
# Share of a call's time that probing for a live connection may take.
PROBE_SHARE = 0.25
PING_S = 0.5
# For this long a replica whose call timed out may be busy, not dead: an event loop under overload answers late.
BUSY_S = 1.5
# Consecutive failures that open a replica's breaker, however many successes are in the breaker's window.
CONSECUTIVE_FAILURES = 5

# Our services report four parts at most, in some 80 characters.
MOST_CHARACTERS = 512
MOST_PARTS = 8
# Digits and a point only, so a number is finite and not negative. Tokens have no dot, so that `<stage>.<part>` is
# unambiguous: stage ids may have dots.
_PART = re.compile(r"[ \t]*([A-Za-z0-9_-]{1,32});dur=([0-9]{1,9}(?:\.[0-9]{1,6})?)[ \t]*", re.ASCII)
# The whole time of a service is the sum of its parts and its own handling: not a part.
_WHOLE = "total"

_collected: ContextVar[dict[str, float] | None] = ContextVar("collected", default=None)

Value = TypeVar("Value")
Answer = TypeVar("Answer", bound=Wire)
Parse = Callable[[bytes], Value]


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a backend. With `reads` it changes nothing and may be retried. `timeout_s` bounds all of it."""

    method: str
    path: str
    timeout_s: float
    body: Wire | None = None
    reads: bool = False
    client: str = ""  # named to the backend, if it is


@dataclass(frozen=True, slots=True)
class Peer:
    """A replica's backend: its name, its URL, the most seconds that connecting may take, the token for it; and the
    replica's address."""

    name: str
    url: str
    connect_s: float
    token: SecretStr | None = None
    replica: str = ""

    @property
    def authorization(self) -> dict[str, str]:
        """The header of every call, if there is a token."""
        return {} if self.token is None else {"authorization": f"Bearer {self.token.get_secret_value()}"}


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
        """Records a failure according to what it shows about this replica."""
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
            for task in probes:
                task.cancel()
            await asyncio.gather(*probes, return_exceptions=True)

    async def _is_alive(self, within_s: float) -> bool:
        try:
            await exchange(self._peer, self._liveness, Call("GET", LIVENESS, within_s), bytes, within_s)
        except BackendFailed as failure:
            return failure.status is not None and failure.status < 500
        return True


async def exchange(peer: Peer, transport: Transport, call: Call, parse: Parse[Value], timeout_s: float) -> Value:
    """Sends a call and returns the parsed answer within `timeout_s`. Raises only BackendFailed (and cancellation)."""
    # Without its query: the mark of a build is in it.
    where = {"replica": peer.replica, "path": call.path.partition("?")[0]}
    with span(f"call {peer.name}", where, calls=True):
        try:
            return await _exchanged(peer, transport, call, parse, timeout_s)
        except BackendFailed as failure:
            annotate({"reason": failure.reason})
            raise


async def _exchanged(peer: Peer, transport: Transport, call: Call, parse: Parse[Value], timeout_s: float) -> Value:
    request = _request(peer, call, timeout_s)
    try:
        async with asyncio.timeout(timeout_s):
            answer = await transport.send(request)
    except TimeoutError as error:
        raise BackendFailed(peer.name, "timeout", f"no answer within {timeout_s:.2f} s.") from error
    except Exception as error:  # a transport's exceptions are no closed list, and each means that the backend failed
        raise _transport_failure(peer.name, error) from error
    annotate({"http.response.status_code": answer.status})
    if answer.status >= 300:
        raise _error_failure(peer, answer)
    try:
        parsed = parse(answer.content)
    except ValidationError as error:
        answer.close_connection()
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        detail = f"its answer is no {error.title} ({where}: {first['msg']})."
        raise BackendFailed(peer.name, "failed", detail) from error
    record_parts(answer.headers)
    pass_on_lookups(peer.name, answer.headers.get(CACHED_RESULTS))
    return parsed


def _request(peer: Peer, call: Call, timeout_s: float) -> Outgoing:
    authorization = peer.authorization
    headers = {DEADLINE_HEADER: str(max(1, int(timeout_s * 1000))), REQUEST_ID_HEADER: request_id(), **authorization}
    headers.update(trace_headers())
    if call.client:
        headers[CLIENT_HEADER] = call.client
    if no_store_requested():
        headers["cache-control"] = NO_STORE
    content: bytes | None = None
    if call.body is not None:
        # Defaults are left out: a batch of 8 MB would grow on its way, and a service of the previous release would
        # refuse an unknown field.
        content = call.body.model_dump_json(exclude_defaults=True).encode()
    if call.method == "POST" or content is not None:
        headers["content-type"] = "application/json"
    base = peer.url.rstrip("/")
    ahead = None if call.path == LIVENESS else Probe(base + LIVENESS, timeout_s * PROBE_SHARE, authorization)
    return Outgoing(call.method, base + call.path, headers, content, peer.connect_s, ahead)


def _transport_failure(backend: str, error: Exception) -> BackendFailed:
    what = type(error.__cause__ or error).__name__  # its message has internal addresses, which callers must not see
    match error:
        case NotTrusted():
            detail = (
                f"its certificate is refused ({error}): the gateway's STACK_CA_FILE has to name the authority that "
                "issued it, and GATEWAY_BACKENDS a host that it is for."
            )
            return BackendFailed(backend, "unreachable", detail, unsent=True)
        case NotConnected():
            return BackendFailed(backend, "unreachable", f"no connection ({what}).", unsent=True)
        case ConnectTimedOut():
            return BackendFailed(backend, "timeout", f"no connection in time ({what}).", unsent=True)
        case ConnectionLost():
            return BackendFailed(backend, "unreachable", f"the connection was lost ({what}).")
        case _:
            return BackendFailed(backend, "failed", f"the answer broke off or made no sense ({what}).")


def _error_failure(peer: Peer, answer: Incoming) -> BackendFailed:
    backend, status = peer.name, answer.status
    kind: str | None = None
    try:
        problem = Problem.from_answer(answer.content)
        detail, kind = problem.detail, problem.type.removeprefix("urn:problem:")
    except ValidationError:
        detail = f"HTTP {status} without a problem to explain it."
    after = answer.headers.get(RETRY_AFTER, "")
    retry_after_s = float(after) if after.isascii() and after.isdigit() and len(after) < 6 else None
    match status:
        case 401 | 403:
            refused = "it wants a token" if peer.token is None else "it refuses the gateway's token"
            detail = f"{refused} (HTTP {status}): set the same STACK_TOKEN for the gateway and for it."
            return BackendFailed(backend, "refused", detail, status=status, kind=kind)
        case 429:
            return BackendFailed(backend, "overloaded", detail, status=status, kind=kind, retry_after_s=retry_after_s)
        case 504:
            return BackendFailed(backend, "timeout", detail, status=status, kind=kind)
        # 507 (storage full): the backend answers and can still read, so this is no failure of the replica.
        case _ if status < 500 or status == InsufficientStorage.status:
            return BackendFailed(backend, "refused", detail, status=status, kind=kind)
        case _:
            return BackendFailed(backend, "failed", detail, status=status, kind=kind)


def parse_parts(header: str) -> dict[str, float]:
    """Returns the milliseconds of each part in a Server-Timing header, without `total`. Repeated parts are added.

    A header is foreign input: what is too long, no plain token or no plain number is left out.
    """
    parts: dict[str, float] = {}
    if len(header) > MOST_CHARACTERS:
        return parts
    for item in header.split(","):
        part = _PART.fullmatch(item)
        if part is None or part[1] == _WHOLE or (len(parts) == MOST_PARTS and part[1] not in parts):
            continue
        parts[part[1]] = parts.get(part[1], 0.0) + float(part[2])
    return parts


@contextmanager
def collected_parts(stage: str) -> Iterator[Mapping[str, float]]:
    """Collects the parts of all calls that are answered within the block, also by tasks begun in it.

    The block is a span of the search, named by the stage.
    """
    parts: dict[str, float] = {}
    token = _collected.set(parts)
    try:
        with span(f"stage {stage}"):
            yield parts
    finally:
        _collected.reset(token)


def record_parts(headers: Mapping[str, str]) -> None:
    """Adds the parts that the headers of a usable answer report to those of the stage that asked for it."""
    collected = _collected.get()
    if collected is None or SERVER_TIMING not in headers:
        return
    for part, ms in parse_parts(headers[SERVER_TIMING]).items():
        if part in collected or len(collected) < MOST_PARTS:
            collected[part] = collected.get(part, 0.0) + ms
