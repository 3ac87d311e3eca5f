"""Decides what is sent, and what follows from an answer: deadlines, repetitions, errors. Sends nothing itself.

Calls are generators that yield requests and receive their outcomes, so that both clients share them.
"""

import random
import time
from collections.abc import Callable, Collection, Generator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import httpx
from pydantic import BaseModel, TypeAdapter, ValidationError

from retrieval_client.answers import FieldError, Problem

# The longest deadline that a gateway takes.
MOST_CALL_S = 120.0
# Statuses of a gateway that is full or not ready.
BUSY = (429, 503)
# Those, no answer at all (0), and the failures on the way: for calls that go on where they were, however often sent.
UNFINISHED = (0, 429, 502, 503, 504)
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 15.0

A = TypeVar("A")
Outcome: TypeAlias = httpx.Response | httpx.TransportError | httpx.DecodingError


class RerankProblem(BaseModel):
    """Why the re-ranker refused a request, as clients of Cohere and Jina read it. `id` is the request's."""

    id: str | None
    detail: str


_REFUSAL: TypeAdapter[Problem | RerankProblem] = TypeAdapter(Problem | RerankProblem)


class RetrievalError(Exception):
    """A call without a usable answer. Its text says what to do.

    `kind`: the problem's own (`unknown-collection`, `overloaded`, …), or `timeout`, `unreachable`, `bad-answer`,
    `incomplete`, `documents-refused`, `document-too-large`, `not-json`, `another-generation`, `another-event-loop`; of
    a re-ranker or a proxy `http-<status>`. `status`: of HTTP; 0 where nothing came.
    """

    def __init__(
        self,
        kind: str,
        detail: str,
        status: int = 0,
        *,
        errors: tuple[FieldError, ...] = (),
        request_id: str | None = None,
        retry_after_s: float = 0.0,
    ) -> None:
        super().__init__(detail)
        self.kind, self.detail, self.status = kind, detail, status
        self.errors, self.request_id, self.retry_after_s = errors, request_id, retry_after_s


@dataclass(frozen=True, slots=True)
class Request:
    """One request, to be sent after a pause. `timeout_s`: how long it may take, with the wait for a connection.
    `error`: why it is repeated. `no_store`: take nothing from a cache. `unit`: whose search it is."""

    method: str
    path: str
    body: bytes | None
    timeout_s: float
    after_s: float = 0.0
    error: RetrievalError | None = None
    no_store: bool = False
    unit: str | None = None


Steps: TypeAlias = Generator[Request, Outcome, A]
Parse: TypeAlias = Callable[[bytes], A]


class Repetition:
    """The pauses between the attempts of one call, as long as they end within a time."""

    def __init__(self, within_s: float, statuses: Collection[int]) -> None:
        self._ends_at = time.monotonic() + within_s
        self._statuses = statuses
        self._pause_s = FIRST_PAUSE_S

    def left_s(self, after_s: float) -> float:
        """Returns the seconds that are left after a pause."""
        return self._ends_at - time.monotonic() - after_s

    def pause_s(self, error: RetrievalError) -> float:
        """Returns the seconds before the next attempt: Retry-After at least. Raises the error where there is none."""
        # Spread, so that clients that were refused together do not return together.
        pause_s = max(error.retry_after_s, random.uniform(self._pause_s / 2, self._pause_s))
        if error.kind == "bad-answer" or error.status not in self._statuses or self.left_s(pause_s) <= 0:
            raise error
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        return pause_s


def refusal(status: int, content: bytes, retry_after: str, address: str) -> RetrievalError:
    """Returns the error of a response that is no answer, by its status, its body and its `Retry-After`."""
    retry_after_s = float(retry_after) if retry_after.isascii() and retry_after.isdigit() else 0.0
    try:
        problem = _REFUSAL.validate_json(content)
    except ValidationError:  # of a proxy
        problem = RerankProblem(id=None, detail=f"HTTP {status} from {address}, not by a gateway or a re-ranker")
    if isinstance(problem, RerankProblem):
        return RetrievalError(
            f"http-{status}", problem.detail, status, request_id=problem.id, retry_after_s=retry_after_s
        )
    # The problem's detail has the first faults already.
    more = (f"{fault.field}: {fault.message}" for fault in problem.errors if fault.message not in problem.detail)
    return RetrievalError(
        problem.type.removeprefix("urn:problem:"),
        "; ".join([problem.detail, *more]),
        status,
        errors=problem.errors,
        request_id=problem.request_id,
        retry_after_s=retry_after_s,
    )


def respond(request: Request, accepted: Collection[int] = ()) -> Steps[httpx.Response]:
    """Sends a request once. Raises RetrievalError where its status is neither a success nor one of the accepted, and
    where there is no answer, or none that can be unpacked."""
    began = time.monotonic() + request.after_s
    outcome = yield request
    if not isinstance(outcome, httpx.Response):
        late = isinstance(outcome, httpx.TimeoutException) and not isinstance(outcome, httpx.ConnectTimeout)
        kind = "bad-answer" if isinstance(outcome, httpx.DecodingError) else "timeout" if late else "unreachable"
        call, reason = f"{request.method} {outcome.request.url}", str(outcome) or type(outcome).__name__
        raise RetrievalError(kind, f"{call}: {reason} after {time.monotonic() - began:.1f} s") from outcome
    if not outcome.is_success and outcome.status_code not in accepted:
        retry_after = outcome.headers.get("retry-after", "")
        raise refusal(outcome.status_code, outcome.content, retry_after, str(outcome.url))
    return outcome


def parsed(parse: Parse[A], content: bytes, address: str, status: int = 200) -> A:
    """Parses an answer. Raises RetrievalError, `bad-answer`, naming its address and the first fault."""
    try:
        return parse(content)
    except ValidationError as error:
        first = error.errors()[0]
        fault = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise RetrievalError("bad-answer", f"{address} is no service of this release: {fault}", status) from error


def attempt(parse: Parse[A], request: Request) -> Steps[A]:
    """Sends a request once and parses its answer. Raises RetrievalError."""
    response = yield from respond(request)
    return parsed(parse, response.content, str(response.url), response.status_code)


def ask(
    parse: Parse[A],
    method: str,
    path: str,
    within_s: float,
    body: bytes | None = None,
    *,
    call_s: float = MOST_CALL_S,
    repeated: Collection[int] = BUSY,
    done: int | None = None,
    unit: str | None = None,
) -> Steps[A]:
    """Sends a request, and again where its status is one to repeat, until the time is over; `call_s`: of each time.

    `done`: the status of a repetition where an attempt before, of which nothing was heard, has done it.
    """
    repetition, after_s, last = Repetition(within_s, repeated), 0.0, None
    while True:
        timeout_s = min(call_s, repetition.left_s(after_s))
        try:
            return (yield from attempt(parse, Request(method, path, body, timeout_s, after_s, last, unit=unit)))
        except RetrievalError as error:
            if last is not None and error.status == done:
                return parse(b"")
            after_s, last = repetition.pause_s(error), error
