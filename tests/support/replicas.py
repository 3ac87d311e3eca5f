"""Owns backend stubs on real sockets, each with a fault of its own, a load balancer, and a gateway over them."""

import asyncio
import json
import random
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal

import httpx

from gateway.app import SocketEndpoints, build_app
from gateway.settings import BackendAddress, GatewaySettings
from tests.support.opened_client import opened_client
from tests.support.processes import free_port

ReplicaFault = Literal["500", "503", "reset", "hung", "garbage", "unknown field", "latin-1"]

CALLERS = 8
DEADLINE_S = 2.0
GENERATION = "demo@1"
STATE = {
    "generation": GENERATION,
    "published": True,
    "documents": 2,
    "engine": "stub",
    "stamp": {},
    "declaration": {"presets": ["beir"]},
}
HITS = [{"id": "a", "score": 2.0}, {"id": "b", "score": 1.0}]


def _answer(path: str) -> dict[str, object]:
    if path == "/livez":
        return {"service": "stub", "status": "alive"}
    if path == "/v1/collections":
        return {"collections": [STATE]}
    if path.endswith("/search"):
        return {"generation": GENERATION, "hits": HITS}
    return {"indexed": 1, "unchanged": 0}


@dataclass
class Replica:
    """Stands for one process of a backend: answers every search with two hits, or has a fault."""

    host: str
    port: int
    fault: ReplicaFault | None = None
    work_s: float = 0.0
    searches: int = 0
    connections: int = 0
    _server: asyncio.Server | None = None
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, self.host, self.port)

    async def stop(self) -> None:
        """Stops as after SIGKILL: the port is closed, and every connection is reset."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._writers:
            _reset(writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            while await self._exchange(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client disconnected
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        path = head.split(" ", 2)[1]
        length = int(head.lower().partition("content-length: ")[2].split("\r\n")[0] or 0)
        await reader.readexactly(length)
        self.searches += path.endswith("/search")
        await asyncio.sleep(self.work_s)
        status, body = "200 OK", _answer(path)
        match self.fault:
            case "500" | "503" if path != "/livez":
                status = f"{self.fault} Broken"
            case "reset":
                _reset(writer)
                return False
            case "hung":
                await asyncio.sleep(3_600)
            case "garbage":
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n\x00\xff{")
                return True
            case "unknown field":
                body = {**body, "added_by_the_next_release": {"x": [1]}}
            case "latin-1":
                status = "500 Erreur imprévue"
        content = json.dumps(body).encode()
        writer.write(f"HTTP/1.1 {status}\r\ncontent-length: {len(content)}\r\n\r\n".encode("latin-1") + content)
        await writer.drain()
        return True


def _reset(writer: asyncio.StreamWriter) -> None:
    transport = writer.transport
    raw: socket.socket | None = transport.get_extra_info("socket")
    if raw is not None:
        # Lingering for 0 s makes the close an RST.
        with suppress(OSError):  # closed already
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    transport.abort()


class Balancer:
    """Forwards each new connection to a random replica, as a Service of Kubernetes does."""

    def __init__(self, replicas: Sequence[Replica]) -> None:
        self.replicas = replicas
        self.port = free_port()
        self._chance = random.Random(11)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        replica = self._chance.choice(self.replicas)
        try:
            onward = await asyncio.open_connection(replica.host, replica.port)
        except OSError:
            _reset(writer)
            return
        with suppress(asyncio.CancelledError):  # at the end of the loop, which would print it for each connection
            await asyncio.gather(_pump(reader, onward[1]), _pump(onward[0], writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while chunk := await reader.read(65_536):
            writer.write(chunk)
            await writer.drain()
    except ConnectionError:
        _reset(writer)
    finally:
        writer.close()


@asynccontextmanager
async def two_replicas() -> AsyncIterator[tuple[Replica, Replica]]:
    """Starts two replicas on one port of two loopback addresses, as two DNS records of one name."""
    port = free_port()
    replicas = Replica("127.0.0.1", port), Replica("127.0.0.2", port)
    for replica in replicas:
        await replica.start()
    try:
        yield replicas
    finally:
        for replica in replicas:
            await replica.stop()


@asynccontextmanager
async def balanced(replicas: Sequence[Replica]) -> AsyncIterator[Balancer]:
    """Starts a balancer in front of these replicas."""
    balancer = Balancer(replicas)
    server = await asyncio.start_server(balancer.serve, "127.0.0.1", balancer.port)
    try:
        yield balancer
    finally:
        server.close()


@dataclass
class SearchRecorder:
    """Sends searches to a gateway and records the answers: their statuses and degraded stages, in order."""

    client: httpx.AsyncClient
    flagged: list[frozenset[str]] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    slowest_s: float = 0.0

    async def ask(self) -> bool:
        """Sends one search; returns whether it was answered without degradation."""
        started = time.monotonic()
        answer = await self.client.post(
            "/v1/collections/demo/search",
            json={"query": "a", "pipeline": "hybrid"},
            headers={"x-deadline-ms": str(int(DEADLINE_S * 1000))},
        )
        self.slowest_s = max(self.slowest_s, time.monotonic() - started)
        self.statuses[answer.status_code] += 1
        self.flagged.append(frozenset(one["stage"] for one in answer.json().get("degraded", ())))
        return answer.status_code == 200 and not self.flagged[-1]

    async def count_degraded(self, count: int) -> int:
        """Sends `count` searches from CALLERS concurrent callers; returns how many failed or were degraded."""
        left = iter(range(count))

        async def caller() -> int:
            return sum([not await self.ask() for _ in left])

        return sum(await asyncio.gather(*(caller() for _ in range(CALLERS))))

    async def seconds_until_undegraded(self, within_s: float = 10.0) -> float:
        """Searches until one is answered without degradation; returns the seconds that it took."""
        started = time.monotonic()
        while not await self.ask():
            assert time.monotonic() - started < within_s, self.flagged[-1]
            await asyncio.sleep(0.02)
        return time.monotonic() - started


def address(url: str) -> BackendAddress:
    return BackendAddress(family="lexical", url=url)


def resolved_to_all(replicas: Sequence[Replica]) -> SocketEndpoints:
    """Returns the endpoints of a name that resolves to the addresses of all replicas."""

    async def resolve(host: str, _: int) -> Sequence[str]:
        assert host == "lexical.test"
        return [replica.host for replica in replicas]

    return SocketEndpoints(address(f"http://lexical.test:{replicas[0].port}"), resolve)


@asynccontextmanager
async def opened_gateway(lexical: SocketEndpoints, dense: Replica) -> AsyncIterator[SearchRecorder]:
    backends = {
        "lexical": address(lexical.url),
        "dense": BackendAddress(family="dense", url=f"http://{dense.host}:{dense.port}"),
        "reranker": BackendAddress(family="reranker", url="http://127.0.0.1:9"),
    }
    app = build_app(
        GatewaySettings(backends=backends),
        lambda name, backend: lexical if name == "lexical" else SocketEndpoints(backend),
    )
    async with opened_client(app, timeout=30.0) as client:
        yield SearchRecorder(client)
