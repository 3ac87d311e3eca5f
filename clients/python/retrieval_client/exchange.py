"""Decides what is sent, and what follows from an answer: deadlines, repetitions, errors. Sends nothing itself.

Calls are generators that yield requests and receive their outcomes, so that both clients share them.
"""

import random
import time
from collections.abc import Callable, Collection, Generator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import httpx
from pydantic import ValidationError

from retrieval_client.errors import RetrievalError, no_answer, refusal

# The longest deadline that a gateway takes.
MOST_CALL_S = 120.0
# Statuses of a gateway that is full or not ready.
BUSY = (429, 503)
# Those, no answer at all (0), and the failures on the way: for calls that go on where they were, however often sent.
UNFINISHED = (0, 429, 502, 503, 504)
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 15.0

A = TypeVar("A")
Outcome: TypeAlias = httpx.Response | httpx.TransportError


@dataclass(frozen=True, slots=True)
class Request:
    """One request, to be sent after a pause. `timeout_s`: how long it may take, with the wait for a connection.
    `error`: why it is repeated."""

    method: str
    path: str
    body: bytes | None
    timeout_s: float
    after_s: float = 0.0
    error: RetrievalError | None = None

    def headers(self, left_s: float) -> dict[str, str]:
        """Returns the deadline, so many seconds from now, and the type of the body."""
        content = {} if self.body is None else {"content-type": "application/json"}
        return {"x-deadline-ms": str(max(1, int(left_s * 1000))), **content}


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
        if error.status not in self._statuses or self.left_s(pause_s) <= 0:
            raise error
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        return pause_s


def attempt(parse: Parse[A], request: Request) -> Steps[A]:
    """Sends a request once. Raises RetrievalError for every outcome but an answer."""
    began = time.monotonic() + request.after_s
    outcome = yield request
    if isinstance(outcome, httpx.TransportError):
        raise no_answer(outcome, time.monotonic() - began) from outcome
    if not outcome.is_success:
        raise refusal(outcome)
    try:
        return parse(outcome.content)
    except ValidationError as error:
        first = error.errors()[0]
        what, status = f"{'.'.join(map(str, first['loc']))}: {first['msg']}", outcome.status_code
        raise RetrievalError("bad-answer", f"{outcome.url} is no service of this release: {what}", status) from error


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
) -> Steps[A]:
    """Sends a request, and again where its status is one to repeat, until the time is over; `call_s`: of each time.

    `done`: the status of a repetition where an attempt before, of which nothing was heard, has done it.
    """
    repetition, after_s, last = Repetition(within_s, repeated), 0.0, None
    while True:
        timeout_s = min(call_s, repetition.left_s(after_s))
        try:
            return (yield from attempt(parse, Request(method, path, body, timeout_s, after_s, last)))
        except RetrievalError as error:
            if last is not None and error.status == done:
                return parse(b"")
            after_s, last = repetition.pause_s(error), error
