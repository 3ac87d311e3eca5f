"""Owns the connections of a process: bounds their number, the time to send a request, and unread answers.

Leaves HTTP to http_protocol.py. Keeps connections in order of age, so that a check costs only what it ends.
"""

import resource
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, cast

from starlette.responses import Response
from starlette.types import Scope
from uvicorn.server import ServerState

from services.chassis.errors import ProblemError, RequestTimeout
from services.chassis.instruments import Instruments

# Files that a process opens besides its connections: segments of its engines, connections to backends.
OTHER_FILES = 4_096

# The answer to a request whose headers alone were read, or None if it is to be read.
EarlyRefusal = Callable[[Scope], Response | None]


@dataclass(frozen=True, slots=True)
class ConnectionBounds:
    """Bounds of one connection and of all together. Only `most` is a setting; tests use shorter times."""

    most: int = 2_048
    # Above `most` only probes are served, so that monitoring still works.
    reserve: int = 64
    head_s: float = 10.0
    # Longer than our clients keep an idle connection (30 s), or they could send on one that was just closed.
    idle_s: float = 75.0
    # Node takes 16 KB of URL and headers together, nginx 32 KB.
    url_bytes: int = 8_192
    head_bytes: int = 32_768
    headers: int = 128
    pipelined: int = 16
    # An unread answer stays in memory: bounds of its time, its least rate, and the bytes of all connections.
    unread_grace_s: float = 10.0
    unread_bytes_s: int = 32_768
    unread_bytes: int = 256_000_000
    # After a refusal, input is still read for this long: closing while the caller sends would discard the refusal.
    linger_s: float = 2.0


class Connection(Protocol):
    """The calls that this module needs of a connection."""

    @property
    def closing(self) -> bool:
        """Whether it closes once everything is written."""
        ...

    def close(self) -> None:
        """Closes it once everything is written."""
        ...

    def abort(self) -> None:
        """Closes it now."""
        ...

    def refuse(self, error: ProblemError) -> None:
        """Answers the current request with a problem, and closes."""
        ...


@dataclass(frozen=True, slots=True)
class UnreadAnswer:
    """An answer waiting in memory: its size in bytes, and the time by which it must be read."""

    size: int
    ends: float


class Connections(ServerState):
    """The server's state, with its connections by what they wait for. Times are seconds of the event loop's clock."""

    def __init__(
        self,
        bounds: ConnectionBounds,
        instruments: Instruments,
        early_refusal: EarlyRefusal = lambda _: None,
        forwarded: Callable[[Scope], None] = lambda _: None,
    ) -> None:
        super().__init__()
        self.bounds = bounds
        self.instruments = instruments
        self.early_refusal = early_refusal
        self.forwarded = forwarded
        self.draining = False
        self._asking: OrderedDict[Connection, float] = OrderedDict()
        self._idle: OrderedDict[Connection, float] = OrderedDict()
        self._unread: OrderedDict[Connection, UnreadAnswer] = OrderedDict()
        self._unread_bytes = 0
        self._closing: dict[Connection, float] = {}

    def admit(self, newest: Connection, now: float) -> bool:
        """Adds a new connection; above the bound, closes one without a request. Returns False if it may only probe."""
        only_probes = False
        if len(self.connections) > self.bounds.most:
            victim = next(iter(self._asking), None) or next(iter(self._idle), None)
            if victim is not None:
                self.count_ended("connections")
                self.forget(victim)
                victim.close()
            elif len(self.connections) > self.bounds.most + self.bounds.reserve:
                self.count_ended("connections")
                newest.close()
            else:
                only_probes = True
        self._asking[newest] = now
        return not only_probes

    def mark_asking(self, connection: Connection, now: float) -> None:
        """Marks that a request, or the rest of one that is already answered, is arriving."""
        self._idle.pop(connection, None)
        self._asking[connection] = now
        self._asking.move_to_end(connection)

    def on_data(self, connection: Connection, now: float) -> None:
        """Handles arriving bytes: on an idle connection they begin a request."""
        if connection in self._idle:
            self.mark_asking(connection, now)

    def on_head_complete(self, connection: Connection) -> None:
        """Stops the timer of the request's head."""
        self._asking.pop(connection, None)

    def mark_idle(self, connection: Connection, now: float) -> None:
        """Marks that every request is answered."""
        self._asking.pop(connection, None)
        self._idle[connection] = now

    def add_unread(self, connection: Connection, size: int, now: float) -> None:
        """Adds an answer of which `size` bytes wait in memory. Aborts the oldest such connections above the bound."""
        self.remove_unread(connection)
        ends = now + self.bounds.unread_grace_s + size / self.bounds.unread_bytes_s
        self._unread[connection] = UnreadAnswer(size, ends)
        self._unread_bytes += size
        while self._unread_bytes > self.bounds.unread_bytes:
            self._abort_unread(next(iter(self._unread)))

    def remove_unread(self, connection: Connection) -> None:
        """Removes the waiting answer: it has been read."""
        answer = self._unread.pop(connection, None)
        if answer is not None:
            self._unread_bytes -= answer.size

    def linger(self, connection: Connection, now: float) -> None:
        """Keeps reading a refused connection for a short time before it is aborted."""
        self.forget(connection)
        self._closing[connection] = now + self.bounds.linger_s

    def forget(self, connection: Connection) -> None:
        """Drops all state of a connection."""
        self._asking.pop(connection, None)
        self._idle.pop(connection, None)
        self._closing.pop(connection, None)
        self.remove_unread(connection)

    def count_ended(self, reason: str) -> None:
        """Counts a connection that was ended, by reason."""
        self.instruments.connections_ended.labels(reason).inc()

    def enforce_bounds(self, now: float) -> None:
        """Ends the connections that have taken too long. Called once per second."""
        self.instruments.connections.set(len(self.connections))
        for connection in _older(self._asking, now - self.bounds.head_s):
            self.forget(connection)
            connection.refuse(RequestTimeout("The request did not arrive in time; send it at once."))
        for connection in _older(self._idle, now - self.bounds.idle_s):
            if connection not in self._unread:  # an unread answer has a bound of its own
                self.forget(connection)
                connection.close()
        for connection in [connection for connection, answer in self._unread.items() if now > answer.ends]:
            self._abort_unread(connection)
        self._abort_closing(now)

    def _abort_unread(self, connection: Connection) -> None:
        self.count_ended("unread-answer")
        self.forget(connection)
        connection.abort()

    def _abort_closing(self, now: float) -> None:
        # A closing connection stays open until its last bytes are written: for ever, if they are not read.
        for connection in cast("set[Connection]", self.connections):
            if connection.closing and connection not in self._closing and connection not in self._unread:
                self._closing[connection] = now + self.bounds.unread_grace_s
        for connection in [connection for connection, ends in self._closing.items() if now > ends]:
            del self._closing[connection]
            connection.abort()


def _older(by_age: OrderedDict[Connection, float], than: float) -> list[Connection]:
    older = []
    for connection, since in by_age.items():
        if since > than:
            break
        older.append(connection)
    return older


def raise_file_limit(connections: int) -> None:
    """Raises this process' limit of open files to what connections and engines need, as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + OTHER_FILES
    if hard != resource.RLIM_INFINITY:
        needed = min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
