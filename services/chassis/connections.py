"""Owns the connections of a process: how many, how long they may take to ask, and what they may leave unread.

Does not speak HTTP (http_protocol.py does). All is kept in order of age, so that a look costs what it ends.
"""

import resource
from collections import OrderedDict
from dataclasses import dataclass
from typing import Protocol, cast

from uvicorn.server import ServerState

from services.chassis.errors import ProblemError, RequestTimeout
from services.chassis.instruments import Instruments

# Files that a process has open beside its connections: segments of its engines, connections to backends.
OTHER_FILES = 4_096


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one connection may take, and all together. Only `most` is a setting; tests have shorter times."""

    most: int = 2_048
    # Above `most` probes alone are served: whoever watches this process must still get in.
    reserve: int = 64
    head_s: float = 10.0
    # Longer than any client of ours keeps an idle connection (30 s), or it would send on one that we just closed.
    idle_s: float = 75.0
    # Node takes 16 KB of URL and headers together, nginx 32 KB.
    url_bytes: int = 8_192
    head_bytes: int = 32_768
    headers: int = 128
    pipelined: int = 16
    # An answer that is not read stays in memory: so long, at this rate at least, and so much of all connections.
    unread_grace_s: float = 10.0
    unread_bytes_s: int = 32_768
    unread_bytes: int = 256_000_000
    # A refused caller is read on for so long: a close amid its sending would destroy the refusal on its way.
    linger_s: float = 2.0


class Connection(Protocol):
    """A connection as far as this module knows it."""

    @property
    def closing(self) -> bool:
        """Whether it is closed once everything is written."""
        ...

    def close(self) -> None:
        """Closes it once everything is written."""
        ...

    def abort(self) -> None:
        """Closes it now."""
        ...

    def refuse(self, error: ProblemError) -> None:
        """Answers what is being asked with a problem, and closes."""
        ...


@dataclass(frozen=True, slots=True)
class Unread:
    """An answer that waits in memory for its reader: its size in bytes, and by when it has to be read."""

    size: int
    ends: float


class Connections(ServerState):
    """The server's state, and its connections by what they wait for. Times are in seconds of the event loop's clock."""

    def __init__(self, bounds: Bounds, instruments: Instruments) -> None:
        super().__init__()
        self.bounds = bounds
        self.instruments = instruments
        self._asking: OrderedDict[Connection, float] = OrderedDict()
        self._idle: OrderedDict[Connection, float] = OrderedDict()
        self._unread: OrderedDict[Connection, Unread] = OrderedDict()
        self._unread_bytes = 0
        self._closing: dict[Connection, float] = {}

    def admit(self, newest: Connection, now: float) -> bool:
        """Takes a new connection; where there are too many, one ends that asks nothing. False: it may only probe."""
        only_probes = False
        if len(self.connections) > self.bounds.most:
            victim = next(iter(self._asking), None) or next(iter(self._idle), None)
            if victim is not None:
                self.refused("connections")
                self.forget(victim)
                victim.close()
            elif len(self.connections) > self.bounds.most + self.bounds.reserve:
                self.refused("connections")
                newest.close()
            else:
                only_probes = True
        self._asking[newest] = now
        return not only_probes

    def asks(self, connection: Connection, now: float) -> None:
        """A request has begun to arrive, or what remains of one that is answered already."""
        self._idle.pop(connection, None)
        self._asking[connection] = now

    def woke(self, connection: Connection, now: float) -> None:
        """Something arrived: from a connection that was idle it is the beginning of a request."""
        if connection in self._idle:
            self.asks(connection, now)

    def asked(self, connection: Connection) -> None:
        """A request's head is complete."""
        self._asking.pop(connection, None)

    def rests(self, connection: Connection, now: float) -> None:
        """All that was asked is answered."""
        self._asking.pop(connection, None)
        self._idle[connection] = now

    def unread(self, connection: Connection, size: int, now: float) -> None:
        """`size` bytes of an answer wait in memory. Where all are too many, the oldest of such connections end."""
        self.read(connection)
        ends = now + self.bounds.unread_grace_s + size / self.bounds.unread_bytes_s
        self._unread[connection] = Unread(size, ends)
        self._unread_bytes += size
        while self._unread_bytes > self.bounds.unread_bytes:
            self._drop_unread(next(iter(self._unread)))

    def read(self, connection: Connection) -> None:
        """The answer has left."""
        answer = self._unread.pop(connection, None)
        if answer is not None:
            self._unread_bytes -= answer.size

    def lingers(self, connection: Connection, now: float) -> None:
        """A refused connection is read on until its end, which is soon."""
        self.forget(connection)
        self._closing[connection] = now + self.bounds.linger_s

    def forget(self, connection: Connection) -> None:
        """A connection is gone, or about to be."""
        self._asking.pop(connection, None)
        self._idle.pop(connection, None)
        self._closing.pop(connection, None)
        self.read(connection)

    def refused(self, reason: str) -> None:
        """Counts a connection that was ended, by reason."""
        self.instruments.connections_ended.labels(reason).inc()

    def look(self, now: float) -> None:
        """Ends what has taken too long; called once a second."""
        self.instruments.connections.set(len(self.connections))
        for connection in _older(self._asking, now - self.bounds.head_s):
            self.forget(connection)
            connection.refuse(RequestTimeout("The request did not arrive in time; send it at once."))
        for connection in _older(self._idle, now - self.bounds.idle_s):
            if connection not in self._unread:  # it has the time that its answer needs
                self.forget(connection)
                connection.close()
        for connection in [one for one, answer in self._unread.items() if now > answer.ends]:
            self._drop_unread(connection)
        self._end_closing(now)

    def _drop_unread(self, connection: Connection) -> None:
        self.refused("unread-answer")
        self.forget(connection)
        connection.abort()

    def _end_closing(self, now: float) -> None:
        # A closed connection lives until its last bytes are written: for ever, where nobody reads them.
        for connection in cast("set[Connection]", self.connections):
            if connection.closing and connection not in self._closing and connection not in self._unread:
                self._closing[connection] = now + self.bounds.unread_grace_s
        for connection in [one for one, ends in self._closing.items() if now > ends]:
            del self._closing[connection]
            connection.abort()


def _older(by_age: OrderedDict[Connection, float], than: float) -> list[Connection]:
    found = []
    for connection, since in by_age.items():
        if since > than:
            break
        found.append(connection)
    return found


def allow_files(connections: int) -> None:
    """Raises this process' own limit of open files to what the connections and the rest need, if the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + OTHER_FILES
    if hard != resource.RLIM_INFINITY:
        needed = min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
