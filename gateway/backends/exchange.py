"""Sends one request to one replica and parses its answer. Turns every fault on the way into a BackendFailed."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from pydantic import SecretStr, ValidationError

from gateway.backends.failures import BackendFailed
from gateway.backends.service_timings import record_parts
from gateway.backends.transport import (
    CACHED_RESULTS,
    RETRY_AFTER,
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
from services.chassis.requests.caching import NO_STORE, no_store_requested, pass_on_lookups
from services.chassis.requests.telemetry import REQUEST_ID_HEADER, request_id
from services.contracts.base import Wire
from services.contracts.problem import Problem

LIVENESS = "/livez"
# Share of a call's time that probing for a live connection may take.
PROBE_SHARE = 0.25

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


@dataclass(frozen=True, slots=True)
class Peer:
    """A replica's backend: its name, its URL, the most seconds that connecting may take, and the token for it."""

    name: str
    url: str
    connect_s: float
    token: SecretStr | None = None

    @property
    def authorization(self) -> dict[str, str]:
        """The header of every call, if there is a token."""
        return {} if self.token is None else {"authorization": f"Bearer {self.token.get_secret_value()}"}


async def exchange(peer: Peer, transport: Transport, call: Call, parse: Parse[Value], timeout_s: float) -> Value:
    """Sends a call and returns the parsed answer within `timeout_s`. Raises only BackendFailed (and cancellation)."""
    request = _request(peer, call, timeout_s)
    try:
        async with asyncio.timeout(timeout_s):
            answer = await transport.send(request)
    except TimeoutError as error:
        raise BackendFailed(peer.name, "timeout", f"no answer within {timeout_s:.2f} s.") from error
    except Exception as error:  # a transport's exceptions are no closed list, and each means that the backend failed
        raise _transport_failure(peer.name, error) from error
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
    headers = {
        DEADLINE_HEADER: str(max(1, int(timeout_s * 1000))),
        REQUEST_ID_HEADER: request_id(),
        **peer.authorization,
    }
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
    ahead = None if call.path == LIVENESS else Probe(base + LIVENESS, timeout_s * PROBE_SHARE, peer.authorization)
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
