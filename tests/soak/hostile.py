"""Sends thousands of hostile requests to each service over raw sockets; checks for 5xx, hangs, death and memory."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from tests.soak import wire
from tests.soak.hostile_requests import VALID, requests
from tests.soak.outcome import Bar, Outcome
from tests.soak.stack import LoadedStack, load, loaded_stack
from tests.support import secured, vitals
from tests.support.processes import ALL_FAMILIES, STORING

AT_ONCE = 28
# Silence after a possibly incomplete request; then the sender half-closes.
SILENCE_S = 0.7
# Silence after an answer that may not be the last one.
MORE_S = 0.05
ENDED_WITHIN_S = 15.0
MOST_GROWTH_MIB = 200.0
SAYS = (
    "Malformed lines, headers, chunks and bodies, header bombs, requests inside requests, random bytes, and valid "
    f"requests with bytes or values changed, on {AT_ONCE} connections at once. A sixth of them is half-closed, a sixth "
    f"is reset. Hung: neither answered nor closed within {ENDED_WITHIN_S:.0f} s. Every 5xx counts, also 503 and 504, "
    "because no request has a deadline below 8 s."
)


@dataclass(frozen=True, slots=True)
class HostileOutcome:
    """Outcome of one hostile request."""

    number: int
    kind: str
    statuses: tuple[int, ...]
    hung: bool
    seconds: float


async def run(seed: int, size: int = 10_000) -> Outcome:
    """Sends `size` hostile requests to every service."""
    ended: dict[str, list[HostileOutcome]] = {}
    growth: dict[str, float] = {}
    died: list[str] = []
    async with loaded_stack(seed, evaluator=True, families=ALL_FAMILIES) as stack:
        for service in VALID:
            process = stack.processes[service]
            # A new collection: the last one may differ between services after partly refused batches.
            await wire.ask(stack.port("gateway"), "DELETE", "/v1/collections/scratch")
            # What the gateway is sent adds the other backends to it.
            backends = () if service == "gateway" else STORING
            await load(stack.port("gateway"), "scratch", [{"id": "h1", "text": "tea"}], backends)
            await _send_all(stack, service, seed, min(size, 300))  # warms up caches and pools
            before = vitals.rss_mib(process.pid)
            ended[service] = await _send_all(stack, service, seed + 1, size)
            if not process.alive:
                died.append(f"{service} ended; its log: {stack.log(service).read_text()[-500:]}")
                continue
            growth[service] = vitals.rss_mib(process.pid) - before
            assert (await wire.ask(process.port, "GET", "/livez")).status_code == 200
    return _outcome(seed, ended, growth, died)


async def _send_all(stack: LoadedStack, service: str, seed: int, count: int) -> list[HostileOutcome]:
    todo = iter(requests(service, seed, count))
    ended: list[HostileOutcome] = []

    async def sender() -> None:
        for number, kind, data, ending in todo:
            sent = secured.authorized(stack.port(service), data)
            ended.append(await _send_one(stack.port(service), number, kind, sent, ending))

    await asyncio.gather(*(sender() for _ in range(AT_ONCE)))
    return ended


async def _send_one(port: int, number: int, kind: str, data: bytes, ending: str) -> HostileOutcome:
    started = time.monotonic()
    received = bytearray()
    hung = False
    try:
        async with asyncio.timeout(ENDED_WITHIN_S):
            reader, writer = await wire.connected(port)
            try:
                await _exchange(reader, writer, data, ending, received)
            finally:
                wire.reset(writer)
    except TimeoutError:
        hung = True
    except OSError:
        pass  # reset by the server counts as ended
    statuses = tuple(int(status) for status in wire.STATUS.findall(bytes(received)))
    return HostileOutcome(number, kind, statuses, hung, time.monotonic() - started)


async def _exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes, ending: str, received: bytearray
) -> None:
    async def send() -> None:
        with suppress(OSError):
            writer.write(data)
            await writer.drain()
            if ending == "half-close":
                wire.half_close(writer)

    sending = asyncio.create_task(send())
    try:
        if ending == "reset":
            await asyncio.sleep(random.Random(len(data)).uniform(0.0, 0.05))
            return
        while True:
            try:
                part = await asyncio.wait_for(reader.read(2**16), MORE_S if received else SILENCE_S)
            except TimeoutError:
                if received:
                    return  # answered, and kept alive
                if ending != "half-close" and sending.done():
                    with suppress(OSError):
                        wire.half_close(writer)
                    ending = "half-close"
                part = await reader.read(2**16)
            if not part:
                return
            received += part
    finally:
        sending.cancel()
        with suppress(asyncio.CancelledError):
            await sending


def _broken(service: str, seed: int, some: list[HostileOutcome]) -> Iterator[str]:
    for outcome in some:
        bad = [status for status in outcome.statuses if status >= 500]
        if bad or outcome.hung:
            what = "hung" if outcome.hung else ", ".join(map(str, bad))
            again = f"hostile_requests.request({service!r}, {seed + 1}, {outcome.number})"
            yield f"{service} #{outcome.number} {outcome.kind}: {what} ({again})"


def _outcome(seed: int, ended: dict[str, list[HostileOutcome]], growth: dict[str, float], died: list[str]) -> Outcome:
    rows = []
    for service, some in ended.items():
        statuses = Counter(status // 100 for outcome in some for status in outcome.statuses)
        slowest = sorted(outcome.seconds for outcome in some)
        rows.append((
            service,
            str(len(some)),
            ", ".join(f"{hundred}xx: {count}" for hundred, count in sorted(statuses.items())),
            str(sum(not outcome.statuses for outcome in some)),
            str(sum(outcome.hung for outcome in some)),
            f"{slowest[-1]:.1f}",
            f"{growth[service]:+.0f}" if service in growth else "process ended",
        ))  # fmt: skip
    everything = [outcome for some in ended.values() for outcome in some]
    broken = (*died, *(line for service, some in ended.items() for line in _broken(service, seed, some)))
    failed = sum(any(status >= 500 for status in outcome.statuses) for outcome in everything)
    hung = sum(outcome.hung for outcome in everything)
    most = max(growth.values(), default=0.0)
    return Outcome(
        name="hostile",
        says=SAYS,
        seed=seed,
        columns=("service", "requests", "answers", "closed unanswered", "hung", "slowest, s", "memory, MiB"),
        rows=tuple(rows),
        bars=(
            Bar("no 5xx", str(failed), not failed),
            Bar("no hang", str(hung), not hung),
            Bar("every process lives", f"{len(died)} ended", not died),
            Bar("memory grows by less than 200 MiB", f"{most:.0f} MiB", most < MOST_GROWTH_MIB),
        ),
        broken=broken,
    )
