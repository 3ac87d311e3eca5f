"""Sends requests at planned times (open loop) or keeps N in flight (closed loop), and records when each was answered.

Knows no protocol: what sends, and what keeps time, are given. Defines also what a generator process receives and
returns; both are pickled, between processes of one program.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

LoopKind = Literal["open", "closed"]


class SendClock(Protocol):
    """Seconds since the start of the load, below 0 before it."""

    def now(self) -> float:
        """Returns the present time."""
        ...

    async def until(self, at_s: float) -> None:
        """Returns at that time or right after it. Lets other tasks run in any case."""
        ...


class Reply(NamedTuple):
    """What came back: HTTP status and body; or status 0 and `failure`, the kind of error."""

    status: int
    body: bytes
    failure: str | None = None
    retry_after: str = ""
    cached: str = ""  # the header X-Cached-Results


class SendRecord(NamedTuple):
    """One request. Times in seconds since the start; `sent_s` and `reply` are None for a dropped one."""

    number: int  # in the list of planned times
    planned_s: float
    sent_s: float | None
    done_s: float
    reply: Reply | None


Send = Callable[[int], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class GeneratorTask:
    """What a generator sends. Request n has the body `bodies[picks[n]]`; the closed loop begins again at their end."""

    loop: LoopKind
    url: str
    headers: dict[str, str]
    bodies: tuple[bytes, ...]
    picks: tuple[int, ...]
    planned_s: tuple[float, ...]  # open loop: of each of `picks`
    in_flight: int  # open loop: at most; closed loop: exactly
    seconds: float  # closed loop: how long
    timeout_s: float  # from sending to the last byte
    opens_gateway: bool = False  # the generator adds the key of its environment: no task holds one, as it is on disk
    name: str = field(default_factory=lambda: uuid.uuid4().hex)  # begins the X-Request-Id of its requests

    def request_id(self, number: int) -> str:
        """Returns the X-Request-Id of a request: by it the logs of the services find also those without an answer."""
        return f"{self.name}-{number}"


@dataclass(frozen=True, slots=True)
class GeneratorResult:
    """What a generator saw: its requests, and its CPU time within `seconds` on the clock."""

    records: list[SendRecord]
    cpu_s: float
    seconds: float
    real_time: bool  # whether it ran with real-time priority
    start_s: float  # of the monotonic clock


async def open_loop(planned: Sequence[float], send: Send, clock: SendClock, most_in_flight: int) -> list[SendRecord]:
    """Sends request n at `planned[n]`, whether or not earlier ones were answered, and waits for all answers.

    A request that would be one more than `most_in_flight` is dropped. Returns the records in the order of completion.
    """
    records: list[SendRecord] = []
    in_flight = 0

    async def exchange(number: int, planned_s: float) -> None:
        nonlocal in_flight
        sent_s = clock.now()
        reply = await send(number)
        records.append(SendRecord(number, planned_s, sent_s, clock.now(), reply))
        in_flight -= 1

    async with asyncio.TaskGroup() as group:
        for number, planned_s in enumerate(planned):
            await clock.until(planned_s)
            if in_flight >= most_in_flight:
                records.append(SendRecord(number, planned_s, None, clock.now(), None))
            else:
                in_flight += 1
                group.create_task(exchange(number, planned_s))
    return records


async def closed_loop(in_flight: int, seconds: float, send: Send, clock: SendClock) -> list[SendRecord]:
    """Keeps `in_flight` requests under way until `seconds` have passed: each answer is followed by the next request.

    A request is planned for the moment at which it is sent. Returns the records in the order of completion.
    """
    records: list[SendRecord] = []
    numbers = iter(range(10**12))

    async def caller(numbers: Iterator[int]) -> None:
        await clock.until(0.0)
        while (sent_s := clock.now()) < seconds:
            number = next(numbers)
            reply = await send(number)
            records.append(SendRecord(number, sent_s, sent_s, clock.now(), reply))

    async with asyncio.TaskGroup() as group:
        for _ in range(in_flight):
            group.create_task(caller(numbers))
    return records
