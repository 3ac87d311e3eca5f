"""Bounds the work in flight: each lane admits requests up to its limit, queues others while they have time, and
refuses the rest at once with 429."""

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

from services.chassis.adaptive_limit import AdaptiveLimit
from services.chassis.cores import available_cores
from services.chassis.deadlines import current_deadline
from services.chassis.errors import Overloaded
from services.chassis.handling import Lane, handling_of
from services.chassis.instruments import Instruments
from services.chassis.lane_rest import Rest
from services.chassis.settings import CONTROL_SLOTS, ServiceSettings
from services.chassis.telemetry import PROBES, timed

CONTROL_WAITING = 64
# The stage of Server-Timing that is the time a request waited for its slot.
WAIT = "wait"
# Work in threads of this process: more at once than cores gains nothing, and takes the interpreter from the event loop.
PER_CORE = 2
# Iterations of the event loop from a disconnect to the end of the waiting request: watcher, cancellation, wait.
LOOP_ITERATIONS = 4
# For this long after `slot` has refused a request, others of the lane may be refused before they are read.
EARLY_S = 5.0
# Of the wait at which `slot` refused, relative to the time left, this share is enough to refuse before reading: a busy
# event loop takes its time to read a request and begin it.
EARLY_SHARE = 0.75
# A request was slow if it took more than this share of the time it had.
SLOW_SHARE = 0.5
# Share of the spare time (the time left less what the work takes) that a request may be expected to wait: waits are
# estimated from means.
SPARE_SHARE = 0.5


@dataclass(slots=True)
class Held:
    """A slot that is held. Its work may set what its end tells of the load: `overloaded`, or nothing (`tells`).

    Without `overloaded`, work was slow, and so met overload, if it took more than SLOW_SHARE of the time it had.
    """

    tells: bool = True
    overloaded: bool | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    """A request whose work must end by `ends_at` of the monotonic clock. `cost` is relative to an ordinary one's."""

    client: str
    cost: float
    ends_at: float
    admitted: asyncio.Future[None]


class Limiter:
    """Owns the requests of one lane: those in flight, up to an adaptive limit, and those that wait.

    Clients take turns: of those that wait, the next is one whose client has the least in flight, in the order of
    arrival. A request is refused if its work cannot be expected to end in time, on arrival and when its turn comes.
    """

    def __init__(
        self, lane: str, limit: AdaptiveLimit, most_waiting: int, instruments: Instruments, rest: Rest | None = None
    ) -> None:
        self.begun = 0  # requests so far
        self._rest = rest
        self._resting: asyncio.TimerHandle | None = None
        self._lane = lane
        self._limit = limit
        self._most_waiting = most_waiting
        self._instruments = instruments
        self._in_flight = 0.0
        self._of_client: Counter[str] = Counter()
        self._waiting: dict[str, deque[Ticket]] = {}
        self._refused_at = float("-inf")
        # The expected wait of the last request that `slot` refused, as a share of all the time that it had left.
        self._refused_share = 1.0
        instruments.limit.labels(lane).set(limit.value)

    @asynccontextmanager
    async def slot(self, within_s: float, *, cost: float = 1.0, client: str = "") -> AsyncIterator[Held]:
        """Holds a slot for work that must end within `within_s` seconds.

        Waits for it where the limit is reached. Raises Overloaded at once if the work is not expected to end in time,
        or if too many wait.
        """
        ticket = Ticket(client, cost, time.monotonic() + within_s, asyncio.get_running_loop().create_future())
        with self._instruments.in_flight.track_inprogress():
            with timed(WAIT):
                await self._admitted(ticket)
            async with self._held(ticket) as held:
                yield held

    @asynccontextmanager
    async def _held(self, ticket: Ticket) -> AsyncIterator[Held]:
        began, begun, alone = time.monotonic(), self.begun, self._in_flight <= ticket.cost
        held = Held()
        beside = self._rest.begun_beside() if self._rest else 0
        try:
            yield held
        except asyncio.CancelledError:
            # The time was over, or the caller left: late, because it was kept waiting, or soon, which tells nothing.
            held.tells = _slow(began, ticket.ends_at)
            raise
        except BaseException:
            held.tells = bool(held.overloaded)
            raise
        finally:
            if self._rest is not None:
                self._begin_rest(self._rest.seconds_after(time.monotonic() - began, beside))
            self._end(ticket, began, held, alone=alone and self.begun == begun)

    @property
    def _full(self) -> bool:
        return sum(map(len, self._waiting.values())) >= self._most_waiting

    @property
    def refuses(self) -> bool:
        """Whether `slot` has refused a request of late."""
        return time.monotonic() - self._refused_at < EARLY_S

    def early_refusal(self, within_s: float, client: str = "") -> Overloaded | None:
        """Returns the refusal of a request that is not read yet, if `slot` has just refused one with such a wait.

        None unless the lane refuses requests anyway: `slot` looks again where callers have just disconnected. What a
        request costs, and how much of its time its work has, is not known before it is read.
        """
        wait_s = self.expected_wait_s(client)
        if not self.refuses or not (self._full or 0.0 < EARLY_SHARE * self._refused_share * within_s <= wait_s):
            return None
        return self._counted(self._too_many(wait_s))

    def expected_wait_s(self, client: str = "") -> float:
        """Returns the seconds that a new request of this client is expected to wait."""
        if not self._waiting:
            return 0.0
        ahead = sum(one.cost for queue in self._waiting.values() for one in queue)
        own = sum(one.cost for one in self._waiting.get(client, ()))
        # The client's share of the turns: what others have waiting beyond as much as this one does not delay it.
        share = len(self._waiting) + (client not in self._waiting)
        return self._limit.expected_wait_s(min(ahead, (own + 1.0) * share))

    async def _admitted(self, ticket: Ticket) -> None:
        refusal: Overloaded | None = None
        for _ in range(LOOP_ITERATIONS):  # requests whose caller has just disconnected still wait
            if not self._waiting and self._fits(ticket):
                self._begin(ticket)
                return
            refusal = self._refusal(ticket.client, ticket.ends_at - time.monotonic())
            if refusal is None or self.refuses:
                break
            await asyncio.sleep(0)
        if refusal is not None:
            self._refused_at = time.monotonic()
            self._refused_share = self.expected_wait_s(ticket.client) / max(0.001, current_deadline().remaining_s)
            raise self._counted(refusal)
        self._waiting.setdefault(ticket.client, deque()).append(ticket)
        self._instruments.waiting.labels(self._lane).inc()
        try:
            await ticket.admitted
        except BaseException:
            if ticket.admitted.done() and not ticket.admitted.cancelled() and ticket.admitted.exception() is None:
                self._end(ticket, 0.0, Held(tells=False), alone=False)  # admitted, and cancelled before it could begin
            else:
                self._leave(ticket)
                self._admit_next()  # it may have stood before one that needs less
            raise

    def _refusal(self, client: str, within_s: float) -> Overloaded | None:
        """Returns why a request that has to wait is refused, or None."""
        wait_s = self.expected_wait_s(client)
        spare_s = within_s - self._limit.expected_s
        if not self._full and wait_s <= SPARE_SHARE * spare_s:
            return None
        return self._too_many(wait_s)

    def _fits(self, ticket: Ticket) -> bool:
        return self._resting is None and (not self._in_flight or self._in_flight + ticket.cost <= self._limit.value)

    def _begin_rest(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if not seconds or (self._resting is not None and self._resting.when() >= loop.time() + seconds):
            return
        if self._resting is not None:
            self._resting.cancel()
        self._resting = loop.call_later(seconds, self._end_rest)

    def _end_rest(self) -> None:
        self._resting = None
        self._admit_next()

    def _begin(self, ticket: Ticket) -> None:
        self.begun += 1
        self._in_flight += ticket.cost
        self._of_client[ticket.client] += 1

    def _end(self, ticket: Ticket, began: float, held: Held, *, alone: bool) -> None:
        """Gives the slot back, and records what the end of the work tells. `alone`: it had the lane to itself."""
        if held.tells:
            now = time.monotonic()
            overloaded = _slow(began, ticket.ends_at) if held.overloaded is None else held.overloaded
            # Where nobody may wait, those that were refused of late would have.
            others_wait = bool(self._waiting) or (not self._most_waiting and self.refuses)
            took_s = now - began
            self._limit.ended(took_s, ticket.cost, now, overloaded=overloaded, others_wait=others_wait, alone=alone)
            self._instruments.limit.labels(self._lane).set(self._limit.value)
        self._in_flight -= ticket.cost
        self._of_client[ticket.client] -= 1
        if not self._of_client[ticket.client]:
            del self._of_client[ticket.client]
        if not self._of_client:
            self._in_flight = 0.0  # a sum of fractions leaves a residue, beside which no request above the limit fits
        self._admit_next()

    def _leave(self, ticket: Ticket) -> None:
        """Takes a request out of the queue."""
        queue = self._waiting.get(ticket.client, deque())
        if ticket in queue:
            queue.remove(ticket)
            self._instruments.waiting.labels(self._lane).dec()
            if not queue:
                del self._waiting[ticket.client]

    def _admit_next(self) -> None:
        """Admits those whose turn has come; refuses those of them that no longer have the time."""
        while self._waiting:
            client = min(self._waiting, key=lambda one: self._of_client[one])  # equal ones: who has waited longest
            ticket = self._waiting[client][0]
            late = time.monotonic() + self._limit.expected_s > ticket.ends_at
            if not late and not self._fits(ticket):
                return
            self._leave(ticket)
            if client in self._waiting:  # behind the others with as much in flight
                self._waiting[client] = self._waiting.pop(client)
            if ticket.admitted.done():  # its caller has just left
                continue
            if late:
                ticket.admitted.set_exception(self._counted(self._too_many(self.expected_wait_s(client))))
                continue
            self._begin(ticket)
            ticket.admitted.set_result(None)

    def _too_many(self, wait_s: float) -> Overloaded:
        detail = "Too many requests are waiting; try again after the seconds in Retry-After."
        # A lane that rests is for those who may be kept waiting: who sends on regardless is slowed down.
        return Overloaded(detail, retry_after_s=max(1, math.ceil(wait_s)), pauses=self._rest is not None)

    def _counted(self, refusal: Overloaded) -> Overloaded:
        self._instruments.rejected.labels(self._lane).inc()
        return refusal


def _slow(began: float, ends_at: float) -> bool:
    return time.monotonic() - began > SLOW_SHARE * (ends_at - began)


def lanes_of(settings: ServiceSettings, instruments: Instruments) -> Mapping[Lane, Limiter]:
    """Returns the limiter of each lane."""

    cores = available_cores()
    most = min(settings.max_in_flight, PER_CORE * cores) if settings.works_in_process else settings.max_in_flight

    def adaptive() -> AdaptiveLimit:
        return AdaptiveLimit(cores, most)

    limits: dict[Lane, tuple[AdaptiveLimit, int]] = {
        "control": (_fixed(CONTROL_SLOTS), CONTROL_WAITING),
        "write": (_fixed(settings.write_slots), settings.max_waiting),
        "bulk": (adaptive(), settings.max_waiting),
        "work": (adaptive(), settings.max_waiting),
    }
    return {lane: Limiter(lane, limit, waiting, instruments) for lane, (limit, waiting) in limits.items()}


def _fixed(slots: int) -> AdaptiveLimit:
    return AdaptiveLimit(slots, slots, slots)


class LimitMiddleware:
    """Gives every request a slot of its lane, except the probes: a full service must still answer them."""

    def __init__(self, app: ASGIApp, *, lanes: Mapping[Lane, Limiter]) -> None:
        self.app = app
        self.lanes = lanes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asks = scope["type"] == "http" and scope["path"] not in PROBES
        limiter = self.lanes.get(handling_of(scope).lane) if asks else None
        if limiter is None:
            await self.app(scope, receive, send)
            return
        async with limiter.slot(current_deadline().remaining_s, client=client_of(scope)):
            await self.app(scope, receive, send)


def client_of(scope: Scope) -> str:
    """Returns what tells callers apart: the address that a request comes from."""
    client = scope.get("client")
    return client[0] if client else ""
