"""Orders the waiting requests of a lane by the share that each client has used. Admits none."""

import asyncio
from collections import deque
from contextvars import ContextVar
from dataclasses import dataclass

# Absent clients that are remembered: one that sends a costly request after another must not count as new each time.
MOST_ABSENT = 1_000

_client: ContextVar[str] = ContextVar("client", default="")


def set_client(client: str) -> None:
    """Sets the client of the current request, by which worker threads take turns."""
    _client.set(client)


def current_client() -> str:
    """Returns the client that `set_client` has set; empty without one."""
    return _client.get()


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    """A request whose work must end by `ends_at` of the monotonic clock. `cost` is relative to an ordinary one's."""

    client: str
    cost: float
    ends_at: float
    admitted: asyncio.Future[None]


@dataclass(slots=True)
class ClientQueue:
    """The requests of one client that wait, in their order, and their total cost."""

    tickets: deque[Ticket]
    cost: float = 0.0


class ClientTurns:
    """Clients share a lane by cost, each in the order of its requests (start-time fair queueing; Goyal et al. 1996).

    A client starts at the cost that it has used; a new or returning one at the lane's present start. The next request
    is that of the client with the least start.
    """

    def __init__(self) -> None:
        self.in_flight = 0
        self.waiting = 0
        self._queues: dict[str, ClientQueue] = {}  # none of them empty
        self._working: dict[str, int] = {}
        self._starts: dict[str, float] = {}
        self._now = 0.0

    def add(self, ticket: Ticket) -> None:
        """Adds a request that waits."""
        queue = self._queues.get(ticket.client)
        if queue is None:
            queue = self._queues[ticket.client] = ClientQueue(deque())
            self._starts[ticket.client] = self._start(ticket.client)
        queue.tickets.append(ticket)
        queue.cost += ticket.cost
        self.waiting += 1

    def remove(self, ticket: Ticket) -> bool:
        """Takes a request out of those that wait. Returns False if it is not among them."""
        queue = self._queues.get(ticket.client)
        if queue is None or ticket not in queue.tickets:
            return False
        queue.tickets.remove(ticket)
        queue.cost -= ticket.cost
        self.waiting -= 1
        if not queue.tickets:
            del self._queues[ticket.client]
        return True

    def next(self) -> Ticket:
        """Returns the request whose turn it is; one waits."""
        return self._queues[min(self._queues, key=self._starts.__getitem__)].tickets[0]

    def begin(self, ticket: Ticket) -> None:
        """Counts a request as in flight, and charges its cost to its client."""
        self._now = self._start(ticket.client)
        self._starts[ticket.client] = self._now + ticket.cost
        self._working[ticket.client] = self._working.get(ticket.client, 0) + 1
        self.in_flight += 1

    def end(self, ticket: Ticket) -> None:
        """Counts a request as no longer in flight."""
        self.in_flight -= 1
        if self._working[ticket.client] == 1:
            del self._working[ticket.client]
        else:
            self._working[ticket.client] -= 1
        if not self.in_flight and not self.waiting:
            self._starts.clear()  # nothing waits: past use delays no client
            self._now = 0.0
        elif len(self._starts) > MOST_ABSENT + len(self._working) + len(self._queues):
            present = self._working.keys() | self._queues.keys()
            self._starts = {client: start for client, start in self._starts.items() if client in present}

    def has_part_left(self, client: str, limit: float) -> bool:
        """Returns whether one request more leaves this client within its part of the limit on those in flight."""
        return self._working.get(client, 0) + 1 <= limit / len(self._working.keys() | {client})

    def ahead_of(self, client: str) -> float:
        """Returns the cost that is admitted before a new ordinary request of this client, of all that waits."""
        queue = self._queues.get(client)
        own = queue.cost if queue is not None else 0.0
        # Of another client's queue, only as much as this one's own comes first.
        return own + sum([min(own + 1.0, other.cost) for other in self._queues.values() if other is not queue])

    def giving_way(self, client: str) -> Ticket | None:
        """Returns the request that a new one of this client displaces: the newest of the client with the longest queue.

        None if that would leave the other client fewer places than this one.
        """
        queue = self._queues.get(client)
        own = len(queue.tickets) if queue is not None else 0
        longest = max((queue.tickets for queue in self._queues.values()), key=len, default=deque[Ticket]())
        return longest[-1] if len(longest) > own + 1 else None

    def _start(self, client: str) -> float:
        return max(self._now, self._starts.get(client, 0.0))
