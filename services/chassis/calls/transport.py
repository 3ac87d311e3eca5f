"""Owns the port by which a request reaches one address of a backend: its values, its faults and its promises."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

# The headers of an answer that are read; a transport leaves out all others.
RETRY_AFTER, SERVER_TIMING, CACHED_RESULTS = "retry-after", "server-timing", "x-cached-results"
# The header by which Elasticsearch identifies itself.
ELASTIC_PRODUCT = "x-elastic-product"
READ_HEADERS = (RETRY_AFTER, SERVER_TIMING, CACHED_RESULTS, ELASTIC_PRODUCT)


@dataclass(frozen=True, slots=True)
class Probe:
    """URL of a liveness probe, the most seconds that a request can spare for it, and its headers."""

    url: str
    most_s: float
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # one of them may hold a token


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request to one address. `connect_s` bounds connecting; the caller bounds the rest, and cancels it then.

    `probe`: what a transport may send first on a new connection that it does not trust.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)  # one of them may hold a token
    content: bytes | None
    connect_s: float
    probe: Probe | None = None


@dataclass(frozen=True, slots=True)
class Incoming:
    """A whole answer. `headers` has those of READ_HEADERS that it had, in lower case.

    `close_connection` is for a caller who cannot parse the answer: the connection is not used again.
    """

    status: int
    content: bytes
    headers: Mapping[str, str]
    close_connection: Callable[[], None]


class TransportError(Exception):
    """A fault of the connection. The exception that it was made from is its cause."""


class NotConnected(TransportError):
    """There was no connection, so nothing was sent."""


class NotTrusted(NotConnected):
    """The certificate was refused, so nothing was sent. The message states the reason, without an address."""


class ConnectTimedOut(TransportError):
    """There was no connection within `connect_s`, so nothing was sent."""


class ConnectionLost(TransportError):
    """The connection broke before an answer began."""


class AnswerBroken(TransportError):
    """The answer broke off, is too large, or is not HTTP."""


class Transport(Protocol):
    """Sends requests to one address, each on a connection of its own while it lasts."""

    async def send(self, request: Outgoing) -> Incoming:
        """Returns the whole answer, whatever its status. Raises TransportError; may be cancelled at any moment."""
        ...

    async def aclose(self) -> None:
        """Closes all connections."""
        ...


class Endpoints(Protocol):
    """Finds the replicas of a backend and opens a transport to each."""

    async def addresses(self) -> Sequence[str]:
        """Returns the current addresses without duplicates. Raises OSError if they cannot be resolved."""
        ...

    def transport(self, address: str) -> Transport:
        """Returns a transport to one of these addresses."""
        ...
