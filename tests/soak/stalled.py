"""Measures the p95 of searches with and without stalled uploads, half-open connections and vanishing callers."""

import asyncio
import random
import resource
import statistics
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.soak import wire
from tests.soak.outcome import Bar, Outcome
from tests.soak.stack import WORDS, LoadedStack, loaded_stack
from tests.support import secured
from tests.support.processes import ROOT

MOST_RATIO = 1.5
SEARCHES_A_SECOND = 20
WINDOW_S = 10.0
ROUNDS = 4
UPLOADS = 32
HALF_OPEN = 3_000
VANISHED = 128
FULL = 160  # slots and queue of one process: so many callers come with those who vanish
# What counts as an answer time when none came: the deadline.
DEADLINE_MS = 5_000
SAYS = (
    f"{SEARCHES_A_SECOND} hybrid searches a second through the gateway, each sent at its scheduled time on a new "
    f"connection and timed from then. Windows of {WINDOW_S:.0f} s without and with the burden take turns, {ROUNDS} "
    "rounds. A search that failed counts as one that took the whole deadline. The ratio is that of the medians of the "
    "windows' p95; beside it the least and the greatest of the rounds."
)

Burden = Callable[[LoadedStack, int], AbstractAsyncContextManager[None]]


@dataclass(frozen=True, slots=True)
class Window:
    """Searches of one window: p95 in ms, reasons of incomplete answers, and number sent."""

    p95_ms: float
    failures: Sequence[str]
    sent: int


@asynccontextmanager
async def _connections(port: int, head: bytes, count: int) -> AsyncIterator[list[asyncio.StreamWriter]]:
    """Opens `count` connections, sends `head` on each; resets them at the end."""
    writers: list[asyncio.StreamWriter] = []
    gate = asyncio.Semaphore(64)

    async def one() -> None:
        async with gate:
            with suppress(OSError, TimeoutError):
                _, writer = await asyncio.wait_for(wire.connected(port), 10)
                writers.append(writer)
                writer.write(secured.authorized(port, head))

    try:
        await asyncio.gather(*(one() for _ in range(count)))
        yield writers
    finally:
        for writer in writers:
            wire.reset(writer)


def _upload(path: str) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nhost: soak\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n"
    return head.encode() + b'{"documents":['


@asynccontextmanager
async def _stalled_uploads(ports: Sequence[int], paths: Sequence[str], count: int) -> AsyncIterator[None]:
    """Runs `count` uploads a port at a byte a second; restarts those that the server ends."""

    async def stall(port: int, path: str) -> None:
        while True:
            with suppress(OSError):
                reader, writer = await wire.connected(port)
                writer.write(secured.authorized(port, _upload(path)))
                try:
                    while not reader.at_eof():
                        await asyncio.sleep(1.0)
                        writer.write(b" ")
                        await writer.drain()
                        with suppress(TimeoutError):
                            await asyncio.wait_for(reader.read(1_000), 0.01)
                finally:
                    wire.reset(writer)
            await asyncio.sleep(0.1)

    tasks = [
        asyncio.create_task(stall(port, path)) for port, path in zip(ports, paths, strict=True) for _ in range(count)
    ]
    await asyncio.sleep(0.5)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def uploads_at_gateway(stack: LoadedStack, count: int) -> AbstractAsyncContextManager[None]:
    return _stalled_uploads([stack.port("gateway")], ["/v1/collections/demo/documents"], min(count, UPLOADS))


def uploads_at_services(stack: LoadedStack, count: int) -> AbstractAsyncContextManager[None]:
    path = "/v1/collections/demo@1/documents"
    return _stalled_uploads([stack.port("lexical"), stack.port("dense")], [path, path], min(count, UPLOADS))


@asynccontextmanager
async def half_open_at_gateway(stack: LoadedStack, count: int) -> AsyncIterator[None]:
    """Opens connections that have sent half a header."""
    async with _connections(stack.port("gateway"), b"GET /livez HTTP/1.1\r\nhost: so", count):
        yield


@asynccontextmanager
async def half_open_at_services(stack: LoadedStack, count: int) -> AsyncIterator[None]:
    """Opens such connections at both storing services."""
    head = b"GET /livez HTTP/1.1\r\nhost: so"
    async with (
        _connections(stack.port("lexical"), head, count // 2),
        _connections(stack.port("dense"), head, count // 2),
    ):
        yield


@asynccontextmanager
async def vanished_at_gateway(stack: LoadedStack, count: int) -> AsyncIterator[None]:
    """Fills slots and queue with re-ranked searches whose callers disconnect after 0.1 s."""
    body = {"query": " ".join(WORDS), "pipeline": "hybrid-rerank", "top": 100, "include": ["title", "text"]}
    request = wire.written("POST", "/v1/collections/demo/search", body)
    async with _connections(stack.port("gateway"), request, count + FULL - VANISHED):
        await asyncio.sleep(0.1)
    yield


BURDENS: Mapping[str, tuple[Burden, int]] = {
    "32 uploads of 1 B/s at the gateway": (uploads_at_gateway, UPLOADS),
    "32 uploads of 1 B/s at lexical and dense each": (uploads_at_services, UPLOADS),
    "3,000 half-open connections at the gateway": (half_open_at_gateway, HALF_OPEN),
    "1,500 half-open connections at lexical and dense each": (half_open_at_services, HALF_OPEN),
    "128 clients disconnected from the gateway's queue": (vanished_at_gateway, VANISHED),
}


async def run(seed: int, size: int = ROUNDS, root: Path = ROOT) -> Outcome:
    """Measures every load in `size` rounds; a single round has short windows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2 * HALF_OPEN + 1_000)), hard))
    seconds = WINDOW_S if size > 1 else 2.0
    measured: dict[str, list[tuple[Window, Window]]] = {}
    async with loaded_stack(seed, root) as stack:
        rng = random.Random(seed)
        await _window(stack, rng, seconds)
        for name, (burden, count) in BURDENS.items():
            measured[name] = []
            for _ in range(size):
                alone = await _window(stack, rng, seconds)
                async with burden(stack, count):
                    with_it = await _window(stack, rng, seconds)
                measured[name].append((alone, with_it))
                await _recovered(stack)
    return _outcome(seed, measured)


async def _recovered(stack: LoadedStack) -> None:
    """Waits until a second after ten complete answers in a row, at most half a minute."""
    whole, ends_at = 0, time.monotonic() + 30
    while whole < 10 and time.monotonic() < ends_at:
        _, failure = await _search(stack.port("gateway"), time.monotonic(), "tea kettle")
        whole = 0 if failure else whole + 1
        await asyncio.sleep(0.05)
    await asyncio.sleep(1.0)


async def _window(stack: LoadedStack, rng: random.Random, seconds: float) -> Window:
    """Runs an open loop: each search is sent when due, regardless of earlier ones."""
    port = stack.port("gateway")
    started = time.monotonic()
    searches = []
    for number in range(int(seconds * SEARCHES_A_SECOND)):
        due = started + number / SEARCHES_A_SECOND
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        searches.append(asyncio.create_task(_search(port, due, " ".join(rng.choices(WORDS, k=4)))))
    results = await asyncio.gather(*searches)
    times = sorted(ms for ms, _ in results)
    failures = [f"number {number}: {failure}" for number, (_, failure) in enumerate(results) if failure]
    return Window(times[int(0.95 * len(times))], failures, len(times))


async def _search(port: int, due: float, query: str) -> tuple[float, str]:
    """Returns milliseconds since the search was due, and the reasons of an incomplete answer."""
    try:
        headers = {"x-deadline-ms": str(DEADLINE_MS)}
        body = {"query": query}
        reply = await wire.ask(port, "POST", "/v1/collections/demo/search", body, headers, DEADLINE_MS / 1000 + 1)
    except (OSError, TimeoutError) as error:
        return float(DEADLINE_MS), repr(error)
    if reply.status != 200:
        return float(DEADLINE_MS), f"{reply.status} {reply.body[:300]!r}"
    degraded = reply.body.partition(b'"degraded":')[2]
    return (time.monotonic() - due) * 1000, "" if degraded.startswith(b"[]") else f"degraded {degraded[:300]!r}"


def _outcome(seed: int, measured: Mapping[str, list[tuple[Window, Window]]]) -> Outcome:
    rows, bars, broken = [], [], []
    for name, rounds in measured.items():
        alone = statistics.median(one.p95_ms for one, _ in rounds)
        with_it = statistics.median(one.p95_ms for _, one in rounds)
        each = [other.p95_ms / one.p95_ms for one, other in rounds]
        ratio = with_it / alone
        failures = [failure for _, one in rounds for failure in one.failures]
        failed = len(failures)
        sent = sum(one.sent for _, one in rounds)
        rows.append((
            name, f"{alone:.0f}", f"{with_it:.0f}", f"{ratio:.2f}", f"{min(each):.2f} to {max(each):.2f}",
            f"{failed} of {sent} ({sum(len(one.failures) for one, _ in rounds)} alone)",
        ))  # fmt: skip
        slow, lost = ratio > MOST_RATIO, failed > 0.01 * sent
        bars.append(Bar(f"p95 at most {MOST_RATIO}x: {name}", f"{ratio:.2f}x", not slow, needs_cores=True))
        bars.append(Bar(f"99 % whole: {name}", f"{failed} of {sent} not", not lost))
        if slow or lost:
            said = "; ".join(failures[:5])
            broken.append(
                f"{name}: p95 {with_it:.0f} ms with, {alone:.0f} ms alone; {failed} of {sent} not whole {said}"
            )
    columns = ("burden", "p95 alone, ms", "p95 with, ms", "ratio", "ratio a round", "not whole")
    return Outcome("stalled", SAYS, seed, columns, tuple(rows), tuple(bars), tuple(broken))
