"""Sends HTTP/1.1 requests to one address. Owns its connections: reuses or closes them.

The adapter of transport.py in production; connection.py is one connection.
"""

import asyncio
import contextlib
import math
import random
import ssl
import time
from collections import deque
from urllib.parse import urlsplit

from services.chassis.calls.connection import PeerConnection
from services.chassis.calls.transport import ConnectTimedOut, Incoming, NotConnected, NotTrusted, Outgoing, Probe
from services.chassis.settings.trust import certificate_fault

# Less than our servers keep an idle connection (75 s), or a request could go to a connection that was just closed.
KEEP_ALIVE_S = 30.0
CONNECTIONS = 128
# Connections end so that load reaches new replicas. Each ends at a random age, so that they do not all reopen at once;
# not much earlier, because behind one address a new connection may reach a broken replica.
MAX_AGE_S = (90.0, 150.0)
# For this long after a request was cancelled, a new connection must first answer a liveness probe within the timeout:
# behind one address, half of the connections may reach a hung replica. The probes run at once, because a slow but
# healthy backend answers none of them in time, and the request itself must still fit after them.
PROBE_AFTER_FAILURE_S = 30.0
PROBE_TIMEOUT_S = 0.25
PROBES_AT_ONCE = 2


class SocketTransport:
    """Owns the connections to one address. Does not reuse one after a failure or beyond its age.

    An address may stand for several replicas (a Service of Kubernetes). A connection stays with one of them, so closing
    those that failed keeps the ones to healthy replicas.
    """

    def __init__(
        self, address: str, *, most: int = CONNECTIONS, context: ssl.SSLContext | None = None, replaces: bool = True
    ) -> None:
        """`context`: of TLS. The certificate is checked for the host of the URL, whatever the address.

        Without `replaces`, neither its age nor an answer of 500 and above ends a connection.
        """
        self._context = context
        self._replaces = replaces
        self._address = address
        self._most = most
        self._places = asyncio.Semaphore(most)
        self._idle: deque[PeerConnection] = deque()  # in turn: an address may stand for several replicas
        self._busy: set[PeerConnection] = set()
        self._given_up_at = float("-inf")

    async def send(self, request: Outgoing) -> Incoming:
        """Sends a request and returns the whole answer. Raises TransportError for any fault of the connection."""
        async with self._places:
            known = True
            connection = self._reusable()
            try:
                if connection is None:
                    if request.probe is not None and time.monotonic() - self._given_up_at <= PROBE_AFTER_FAILURE_S:
                        known = await self._probe_new_connections(request, request.probe)
                        connection = self._reusable()
                    connection = connection or await self._connect(request)
                return await self._exchange(connection, request)
            except asyncio.CancelledError:
                # After failed probes the time may have been too short because of them: that must not prolong probing.
                if known:
                    self._given_up_at = time.monotonic()
                raise

    async def aclose(self) -> None:
        """Closes all connections."""
        self._most = 0  # those that are opening now close after their answer
        for connection in (*self._idle, *self._busy):
            connection.close()

    def _reusable(self) -> PeerConnection | None:
        now = time.monotonic()
        while self._idle:
            connection = self._idle.popleft()
            if connection.is_open and now < min(connection.ends_at, connection.idle_since + KEEP_ALIVE_S):
                return connection
            connection.close()
        return None

    async def _connect(self, request: Outgoing) -> PeerConnection:
        url = urlsplit(request.url)
        encrypted = url.scheme == "https"
        try:
            async with asyncio.timeout(request.connect_s):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: PeerConnection(self._ends_at()),
                    self._address,
                    url.port or (443 if encrypted else 80),
                    ssl=(self._context or ssl.create_default_context()) if encrypted else None,
                    server_hostname=url.hostname if encrypted else None,
                )
        except TimeoutError as error:
            raise ConnectTimedOut(str(error)) from error
        except OSError as error:  # of TLS too
            if (fault := certificate_fault(error)) is not None:
                raise NotTrusted(fault) from error
            raise NotConnected(str(error)) from error
        return connection

    def _ends_at(self) -> float:
        return time.monotonic() + random.uniform(*MAX_AGE_S) if self._replaces else math.inf

    async def _exchange(self, connection: PeerConnection, request: Outgoing) -> Incoming:
        self._busy.add(connection)
        try:
            answer = await connection.exchange(request)
        except BaseException:
            connection.close()
            raise
        finally:
            self._busy.discard(connection)
        failed = answer.status >= 500 and self._replaces
        if failed or not connection.is_open or len(self._idle) + len(self._busy) >= self._most:
            connection.close()  # those of probes may be too many
        else:
            connection.idle_since = time.monotonic()
            self._idle.append(connection)
        return answer

    async def _probe_new_connections(self, request: Outgoing, probe: Probe) -> bool:
        """Opens connections until one answers, which stays open. Returns False if none answers in time."""
        asked_for = Outgoing("GET", probe.url, probe.headers, None, request.connect_s)

        async def answers() -> bool:
            with contextlib.suppress(Exception):
                return (await self._exchange(await self._connect(asked_for), asked_for)).status < 500
            return False

        asked = [asyncio.create_task(answers()) for _ in range(PROBES_AT_ONCE)]
        try:
            async with asyncio.timeout(min(PROBE_TIMEOUT_S, probe.most_s)):
                for one in asyncio.as_completed(asked):
                    if await one:
                        return True
        except TimeoutError:
            pass
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        return False
