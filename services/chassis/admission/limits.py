"""Bounds the work in flight: a lane admits requests up to its limit, queues some, and refuses the rest with 429."""

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from services.chassis.admission.client_turns import ClientTurns, Ticket
from services.chassis.deadlines import current_deadline
from services.chassis.errors import Overloaded
from services.chassis.instruments import Instruments
from services.chassis.requests.telemetry import timed

# The stage of Server-Timing that is the time a request waited for its slot.
WAIT = "wait"
# Iterations of the event loop from a disconnect to the end of the waiting request: watcher, cancellation, wait.
LOOP_ITERATIONS = 4
# For this long after `slot` has refused a request, others of the lane may be refused before they are read.
EARLY_S = 5.0
# Before reading, this share of that wait is enough to refuse: a busy event loop takes time to read and begin a request.
EARLY_SHARE = 0.75
# A request was slow if it took more than this share of the time it had.
SLOW_SHARE = 0.5
# A request that has less than this share of the time that others had of late meets the end of its time first, not
# overload: the limit does not shrink for it. Of the others, no more than a second counts.
HURRIED_SHARE = 0.25
MOST_USUAL_S = 1.0
# Share of the spare time (time left less expected work) that a request may wait: waits are estimated from means.
SPARE_SHARE = 0.5
# A lane rests no longer than this, in seconds: as long as requests may take by default. Work that hung until a long
# deadline would else close the lane to everybody for several times that deadline.
MOST_REST_S = 10.0
# The share that is left of a limit after overload.
SHRINK = 0.9
# Weight of one request in the means: the last 20 or so count.
SMOOTHING = 0.05


class AdaptiveLimit:
    """A limit on the cost of the requests in flight, from `least` to `most` (AIMD; Chiu and Jain 1989).

    It grows by one each time as many requests as it admits have ended well while others waited. It shrinks by a tenth
    where one met overload, once within the time that this request took: all that were in flight beside it met the
    same overload. `least` equal to `most` is a fixed limit.
    """

    def __init__(self, start: float, most: float, least: float = 1.0) -> None:
        self.value = max(least, min(most, start))
        self._least = least
        self._most = most
        self._mean_s = 0.0
        self._paced_s = 0.0
        self._paced_cost = 0.0
        self._ended_at: float | None = None
        self._shrunk_at = float("-inf")

    @property
    def expected_s(self) -> float:
        """Expected seconds of a request, by those that have ended; 0 before the first."""
        return self._mean_s

    def expected_wait_s(self, cost_ahead: float) -> float:
        """Returns how many seconds pass until requests of this total cost have been admitted.

        By the seconds from end to end while others waited; before the first such end by Little's law.
        """
        pace_s = self._paced_s / self._paced_cost if self._paced_cost else self._mean_s / self.value
        return cost_ahead * pace_s

    def ended(
        self, took_s: float, cost: float, now: float, *, overloaded: bool, others_wait: bool, excused: bool = False
    ) -> None:
        """Records a request that ended `now` (of any monotonic clock) after `took_s`, and whether it met overload.

        The limit does not shrink for one that is `excused`: it ran alone, or had too little time under any load.
        """
        self._mean_s += (took_s - self._mean_s) * (SMOOTHING if self._mean_s else 1.0)
        if others_wait and self._ended_at is not None:
            # A ratio of decayed sums: a mean of ratios would count a cheap request as much as a costly one.
            self._paced_s = self._paced_s * (1.0 - SMOOTHING) + now - self._ended_at
            self._paced_cost = self._paced_cost * (1.0 - SMOOTHING) + cost
        self._ended_at = now if others_wait else None
        if overloaded:
            if not excused and now - self._shrunk_at > took_s:
                self._shrunk_at = now
                self.value = max(self._least, self.value * SHRINK)
        elif others_wait:
            self.value = min(self._most, self.value + min(1.0, cost / self.value))


@dataclass(frozen=True, slots=True)
class Rest:
    """Bounds a lane while another lane works: to one request at a time, and a `share` of the time up to MOST_REST_S.

    `begun_beside` returns how many requests the other lane has begun so far.
    """

    begun_beside: Callable[[], int]
    share: float

    def seconds_after(self, took_s: float, begun_before: int) -> float:
        """Returns how long to rest after work of `took_s`; `begun_before`: of the other lane, when it began."""
        if self.begun_beside() == begun_before:
            return 0.0
        return min(MOST_REST_S, took_s * (1.0 / self.share - 1.0))


@dataclass(slots=True)
class MostOfLate:
    """The largest of the values noted of late: it halves after each EARLY_S without a larger one."""

    value: float = 0.0
    noted_at: float = float("-inf")

    def note(self, value: float, now: float) -> None:
        """Notes a value at a time of time.monotonic."""
        if value >= self.value or now - self.noted_at > EARLY_S:
            self.value, self.noted_at = max(value, self.value / 2), now


@dataclass(slots=True)
class Held:
    """A slot that is held. Its holder may set what the end of its work means for the load.

    `overloaded`: whether the work met overload; None: it did if it took more than SLOW_SHARE of the time it had.
    `tells`: whether the limit heeds this end at all. Where the work raises, the limit heeds it only if
    `overloaded` is True. Where the work is cancelled, the limit heeds only a slow end.
    """

    tells: bool = True
    overloaded: bool | None = None


class Limiter:
    """Owns the requests of one lane: those in flight, up to an adaptive limit, and those that wait.

    Clients take turns by cost (client_turns.py). A request is refused if its work cannot be expected to end in time, on
    arrival and when its turn comes, or if no place is left for it in the queue.
    """

    def __init__(
        self, lane: str, limit: AdaptiveLimit, most_waiting: int, instruments: Instruments, rest: Rest | None = None
    ) -> None:
        self.begun = 0  # requests so far
        self._rest = rest
        self._resting: asyncio.TimerHandle | None = None
        self._rests_until = 0.0
        self._gives_way = False  # whether the other lane worked beside what ended last
        self._begun_beside = 0  # requests that the other lane had begun when the work in flight began
        self._lane = lane
        self._limit = limit
        self._most_waiting = most_waiting
        self._instruments = instruments
        self._in_flight = 0.0
        self._turns = ClientTurns()
        self._refused_at = float("-inf")
        # Requests by client that `early_refusal` has passed since the last one came or ended: a busy loop reads many.
        self._coming: Counter[str] = Counter()
        # The share of its remaining time that a waiting request had for its work here; half, if it is re-ranked later.
        self._work_share = MostOfLate()
        self._usual_s = MostOfLate()  # the time that a request had
        self._rejected = instruments.rejected.labels(lane)
        self._limit_shown = instruments.limit.labels(lane)
        self._limit_shown.set(limit.value)
        instruments.admitted.labels(lane).set_function(lambda: self._in_flight)

    @asynccontextmanager
    async def slot(self, within_s: float, *, cost: float = 1.0, client: str = "") -> AsyncIterator[Held]:
        """Holds a slot for work that must end within `within_s` seconds.

        Waits for it at the limit. Raises Overloaded at once if the work is unlikely to end in time or too many wait.
        """
        ticket = Ticket(client, cost, time.monotonic() + within_s, asyncio.get_running_loop().create_future())
        with self._instruments.in_flight.track_inprogress():
            with timed(WAIT):
                await self._admitted(ticket)
            began, begun, alone = time.monotonic(), self.begun, self._in_flight <= ticket.cost
            had_s, held = ticket.ends_at - began, Held()
            self._usual_s.note(min(MOST_USUAL_S, had_s), began)
            beside = self._rest.begun_beside() if self._rest else 0
            try:
                yield held
            except asyncio.CancelledError:
                # The time was over, or the caller left. If it left late, it was kept waiting; an early end means
                # nothing. Work that knows of no overload does not count either: it was cut off, and is no success.
                held.tells = held.overloaded is not False and _slow(began, ticket.ends_at)
                raise
            except BaseException:
                held.tells = bool(held.overloaded)
                raise
            finally:
                if self._rest is not None:
                    self._gives_way = self._rest.begun_beside() != beside
                    self._begin_rest(self._rest.seconds_after(time.monotonic() - began, beside))
                hurried = had_s < HURRIED_SHARE * self._usual_s.value
                self._end(ticket, began, held, excused=hurried or (alone and self.begun == begun))

    @property
    def refuses(self) -> bool:
        """Whether `slot` has refused a request of late."""
        return time.monotonic() - self._refused_at < EARLY_S

    def early_refusal(self, remaining_s: float, client: str = "") -> Overloaded | None:
        """Returns the refusal of a request that is not read yet and has this time left, if `slot` would refuse it too.

        None unless the lane refuses requests anyway: `slot` looks again where callers have just disconnected. What a
        request costs, and how much of its time its work has, is not known before it is read.
        """
        if not self.refuses:
            return None
        coming = self._coming[client]
        self._coming[client] += 1
        if not self._turns.waiting and self._in_flight + coming < self._limit.value:
            return None
        wait_s = self.expected_wait_s(client, coming)
        spare_s = self._work_share.value * remaining_s - self._limit.expected_s
        if self._has_place(client) and not 0.0 < wait_s >= EARLY_SHARE * SPARE_SHARE * spare_s:
            return None
        self._coming[client] -= 1
        return self._counted(self._too_many(wait_s))

    def expected_wait_s(self, client: str = "", coming: int = 0) -> float:
        """Returns the seconds that a new request of this client is expected to wait, after so many of it."""
        ahead = coming + (self._turns.ahead_of(client) if self._turns.waiting else 0.0)
        return max(self._limit.expected_wait_s(ahead), self._rest_ahead_s())

    def _rest_ahead_s(self) -> float:
        """Returns the seconds of the present rest that are left, or of the rest after the work in flight."""
        if self._rest is None:
            return 0.0
        left_s = max(0.0, self._rests_until - time.monotonic())
        if not self._turns.in_flight:
            return left_s
        return max(left_s, self._rest.seconds_after(self._limit.expected_s, self._begun_beside))

    def _has_place(self, client: str) -> bool:
        return self._turns.waiting < self._most_waiting or self._turns.giving_way(client) is not None

    async def _admitted(self, ticket: Ticket) -> None:
        refusal: Overloaded | None = None
        self._coming.clear()
        for _ in range(LOOP_ITERATIONS):  # requests whose caller has just disconnected still wait
            if not self._turns.waiting and self._fits(ticket):
                self._begin(ticket)
                return
            refusal = self._refusal(ticket.client, ticket.ends_at - time.monotonic())
            if refusal is None or self.refuses:
                break
            await asyncio.sleep(0)
        now, remaining_s = time.monotonic(), current_deadline().remaining_s
        self._work_share.note(min(1.0, (ticket.ends_at - now) / remaining_s) if remaining_s else 0.0, now)
        if refusal is not None:
            self._refused_at = time.monotonic()
            raise self._counted(refusal)
        if self._turns.waiting >= self._most_waiting:
            self._refuse_one_for(ticket.client)
        self._turns.add(ticket)
        self._instruments.waiting.labels(self._lane).inc()
        try:
            await ticket.admitted
        except BaseException:
            if ticket.admitted.done() and not ticket.admitted.cancelled() and ticket.admitted.exception() is None:
                # Admitted, and cancelled before it could begin.
                self._end(ticket, 0.0, Held(tells=False), excused=False)
            else:
                self._leave(ticket)
                self._admit_next()  # it may have stood before one that needs less
            raise

    def _refusal(self, client: str, within_s: float) -> Overloaded | None:
        """Returns why a request that has to wait is refused, or None."""
        wait_s = self.expected_wait_s(client)
        spare_s = within_s - self._limit.expected_s
        if wait_s <= SPARE_SHARE * spare_s and self._has_place(client):
            return None
        return self._too_many(wait_s)

    def _refuse_one_for(self, client: str) -> None:
        """Refuses the request that gives its place in the full queue to a new one of this client; there is one."""
        ticket = self._turns.giving_way(client)
        assert ticket is not None  # _refusal has looked
        self._leave(ticket)
        if not ticket.admitted.done():  # else its caller has just left
            self._refuse(ticket)

    def _refuse(self, ticket: Ticket) -> None:
        self._refused_at = time.monotonic()
        ticket.admitted.set_exception(self._counted(self._too_many(self.expected_wait_s(ticket.client))))

    def _fits(self, ticket: Ticket) -> bool:
        if self._resting is not None or (self._in_flight and self._gives_way):
            return False
        if not self._in_flight or self._in_flight + ticket.cost <= self._limit.value:
            return True
        # Without a queue there are no turns: a client gets its share although others hold every slot.
        return not self._most_waiting and self._turns.has_part_left(ticket.client, self._limit.value)

    def _begin_rest(self, seconds: float) -> None:
        now = time.monotonic()
        if not seconds or self._rests_until >= now + seconds:
            return
        if self._resting is not None:
            self._resting.cancel()
        self._rests_until = now + seconds
        self._resting = asyncio.get_running_loop().call_later(seconds, self._end_rest)

    def _end_rest(self) -> None:
        self._resting = None
        self._admit_next()

    def _begin(self, ticket: Ticket) -> None:
        self.begun += 1
        if self._rest is not None and not self._turns.in_flight:
            self._begun_beside = self._rest.begun_beside()
        self._in_flight += ticket.cost
        self._turns.begin(ticket)

    def _end(self, ticket: Ticket, began: float, held: Held, *, excused: bool) -> None:
        """Gives the slot back, and records what the end of the work means. `excused`: as of AdaptiveLimit.ended."""
        if held.tells:
            now = time.monotonic()
            overloaded = _slow(began, ticket.ends_at) if held.overloaded is None else held.overloaded
            # Without a queue, recent refusals count as waiting requests.
            others_wait = bool(self._turns.waiting) or (not self._most_waiting and self.refuses)
            took_s = now - began
            self._limit.ended(took_s, ticket.cost, now, overloaded=overloaded, others_wait=others_wait, excused=excused)
            self._limit_shown.set(self._limit.value)
        self._coming.clear()
        self._in_flight -= ticket.cost
        self._turns.end(ticket)
        if not self._turns.in_flight:
            self._in_flight = 0.0  # a sum of fractions leaves a residue, beside which no request above the limit fits
        self._admit_next()

    def _leave(self, ticket: Ticket) -> None:
        """Takes a request out of the queue, if it still waits there."""
        if self._turns.remove(ticket):
            self._instruments.waiting.labels(self._lane).dec()

    def _admit_next(self) -> None:
        """Admits those whose turn has come; refuses those of them that no longer have the time."""
        while self._turns.waiting:
            ticket = self._turns.next()
            late = time.monotonic() + self._limit.expected_s > ticket.ends_at
            if not late and not self._fits(ticket):
                return
            self._leave(ticket)
            if ticket.admitted.done():  # its caller has just left
                continue
            if late:
                self._refuse(ticket)
                continue
            self._begin(ticket)
            ticket.admitted.set_result(None)

    def _too_many(self, wait_s: float) -> Overloaded:
        detail = "Too many requests are waiting; try again after the seconds in Retry-After."
        # Clients of a lane that rests can wait: one that sends on regardless is slowed down.
        return Overloaded(detail, retry_after_s=max(1, math.ceil(wait_s)), pauses=self._rest is not None)

    def _counted(self, refusal: Overloaded) -> Overloaded:
        self._rejected.inc()
        return refusal


def _slow(began: float, ends_at: float) -> bool:
    return time.monotonic() - began > SLOW_SHARE * (ends_at - began)
