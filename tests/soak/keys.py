"""Measures what keys and TLS cost, and whether wrong keys slow the right ones.

Three stacks of gateway and lexical service, embedded, stand side by side: without keys, with keys and the token, and
with TLS besides. Searches take turns over them. Then searches with a right key are timed alone and beside wrong keys,
in turns: on connections that are kept, where each wrong key is answered later than the one before, and on a new
connection each, where it is answered at once. Wrong keys come at a steady rate, from this machine too: what it takes to
send them counts against us. How much that is, turns show in which a server that does nothing else refuses them.
"""

import asyncio
import json
import os
import random
import ssl
import statistics
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np

from evaluator.load.sending.drives import run_generators
from evaluator.load.sending.load_loop import GeneratorTask, SendRecord
from tests.soak.outcome import Bar, Outcome
from tests.soak.stack import WORDS, documents
from tests.soak.wrong_keys import SENDERS
from tests.support import secured
from tests.support.certificates import Certificates
from tests.support.keys import TOKEN, Keys, bearing, made_keys
from tests.support.processes import ROOT, Process, gateway, services

ROUNDS = 12
SECONDS = 5.0  # of each turn
WARMUP_S = 1.0
LEAD_S = 1.0  # for the start of the generator: wrong keys are sent before, and until the last search
IN_FLIGHT = 4
RATE = 1_000
RIGHT_RATE = 50.0
MOST_SLOWER = 1.10
DOCUMENTS = 400
ALONE = "alone"
# How wrong keys are sent, by what wrong_keys.py calls it.
WAYS = {
    f"beside {RATE} wrong keys a second on {SENDERS} kept connections": "kept",
    f"beside {RATE} wrong keys a second on a new connection each": "new",
}
ELSEWHERE = f"beside {RATE} wrong keys a second on a new connection each, sent to another server"
REFUSAL = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
JSON = {"content-type": "application/json", "cache-control": "no-store", "x-deadline-ms": "5000"}
COLUMNS = ("stack", "searches", "CPU a search, ms", "times that without keys", "p50 ms", "p95 ms")


@dataclass
class Stack:
    """A stack, and what its turns have measured."""

    name: str
    processes: Sequence[Process]
    headers: Mapping[str, str]
    cpu_ms: list[float] = field(default_factory=list)
    ms: list[float] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.processes[0].url}/v1/collections/demo/search"

    def cpu_s(self) -> float:
        """The CPU time of its processes so far."""
        return sum(_cpu_s(one.pid) for one in self.processes)


async def run(seed: int, size: int = ROUNDS) -> Outcome:
    """Measures `size` rounds, with searches drawn by `seed`."""
    with secured.turned_off():  # its stacks have certificates and keys of their own, or none
        return await _measured(seed, size)


async def _measured(seed: int, size: int) -> Outcome:
    rng = random.Random(seed)
    bodies = tuple(_search(rng) for _ in range(64))
    with tempfile.TemporaryDirectory() as directory:
        keys = made_keys(Path(directory))
        async with AsyncExitStack() as opened:
            made = Certificates(Path(directory))
            opened.enter_context(_trusted_by_generators(made))
            stacks = [
                await opened.enter_async_context(_stack(name, Path(directory), rng, keys, made))
                for name in ("without keys", "keys", "keys and TLS")
            ]
            for _ in range(size):
                for stack in rng.sample(stacks, len(stacks)):
                    await _turn(stack, bodies)
            p95s: dict[str, list[float]] = {which: [] for which in (ALONE, ELSEWHERE, *WAYS)}
            answered: dict[str, list[float]] = {which: [] for which in WAYS}
            ports = dict.fromkeys(WAYS, stacks[1].processes[0].port)
            ports[ELSEWHERE] = await opened.enter_async_context(_refusing_server())
            for _ in range(size):
                for which in rng.sample(sorted(p95s), len(p95s)):
                    async with _flood(ports.get(which), WAYS.get(which, "new"), answered.get(which, [])):
                        p95s[which].append(await _right_keys(stacks[1], bodies))
    return _outcome(seed, stacks, p95s, answered)


@contextmanager
def _trusted_by_generators(made: Certificates) -> Iterator[None]:
    """The generators are processes that read this environment; what starts after them must not."""
    before = os.environ.get("STACK_CA_FILE")
    os.environ["STACK_CA_FILE"] = str(made.ca_file)
    try:
        yield
    finally:
        if before is None:
            del os.environ["STACK_CA_FILE"]
        else:
            os.environ["STACK_CA_FILE"] = before


async def _turn(stack: Stack, bodies: Sequence[bytes]) -> None:
    task = _task("closed", stack.url, stack.headers, bodies, in_flight=IN_FLIGHT)
    before = stack.cpu_s()
    (result,) = await run_generators([task])
    # The CPU of the warm-up counts too, so its searches do.
    stack.cpu_ms.append((stack.cpu_s() - before) * 1000 / len(result.records))
    stack.ms += _times_ms(result.records, 200)


async def _right_keys(stack: Stack, bodies: Sequence[bytes]) -> float:
    """Returns the p95 of searches with a right key, in milliseconds."""
    (searched,) = await run_generators(
        [_task("open", stack.url, stack.headers, bodies, rate=RIGHT_RATE, in_flight=256)]
    )
    return float(np.percentile(_times_ms(searched.records, 200), 95))


class _Refusing(asyncio.Protocol):
    """Refuses each connection when it has sent something."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, _: bytes) -> None:
        self._transport.write(REFUSAL)
        self._transport.close()


@asynccontextmanager
async def _refusing_server() -> AsyncIterator[int]:
    """Yields the port of a server that only refuses, in this process, which is idle during a turn."""
    server = await asyncio.get_running_loop().create_server(_Refusing, "127.0.0.1", 0, backlog=2_048)
    async with server:
        yield server.sockets[0].getsockname()[1]


@asynccontextmanager
async def _flood(port: int | None, way: str, answered: list[float]) -> AsyncIterator[None]:
    """Sends wrong keys to a port meanwhile, and adds how many a second were answered; None: sends nothing."""
    if port is None:
        yield
        return
    seconds = LEAD_S + WARMUP_S + SECONDS
    given = [str(port), str(RATE), str(seconds), way]
    sender = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.soak.wrong_keys", *given, cwd=ROOT, stdout=subprocess.PIPE
    )
    try:
        yield
        told, _ = await sender.communicate()
    finally:
        if sender.returncode is None:
            sender.kill()
            await sender.wait()
    answers: dict[str, int] = json.loads(told)
    assert set(answers) == {"401"}, answers
    answered.append(answers["401"] / seconds)


def _task(
    loop: str, url: str, headers: Mapping[str, str], bodies: Sequence[bytes], *, in_flight: int, rate: float = 0.0
) -> GeneratorTask:
    count = int(rate * (WARMUP_S + SECONDS)) if loop == "open" else len(bodies)
    return GeneratorTask(
        loop="open" if loop == "open" else "closed",
        url=url,
        headers=JSON | dict(headers),
        bodies=tuple(bodies),
        picks=tuple(number % len(bodies) for number in range(count)),
        planned_s=tuple(number / rate for number in range(count)) if loop == "open" else (),
        in_flight=in_flight,
        seconds=WARMUP_S + SECONDS,
        timeout_s=10.0,
        opens_gateway=True,  # trusts the authority; there is no key in the environment
    )


def _times_ms(records: Sequence[SendRecord], status: int) -> list[float]:
    """Returns the times after the warm-up, from when a request was planned. All were answered with this status."""
    told = {None if one.reply is None else one.reply.status for one in records}
    assert told == {status}, told
    return [(one.done_s - one.planned_s) * 1000 for one in records if one.planned_s >= WARMUP_S]


def _search(rng: random.Random) -> bytes:
    query = " ".join(rng.choice(WORDS) for _ in range(4))
    return json.dumps({"query": query, "pipeline": "bm25", "top": 10}).encode()


@asynccontextmanager
async def _stack(
    name: str, directory: Path, rng: random.Random, keys: Keys, made: Certificates
) -> AsyncIterator[Stack]:
    own = directory / name.replace(" ", "-")
    own.mkdir()
    lexical = services(own)["lexical"]
    if name == "keys and TLS":
        lexical.trusts = made.context
        lexical.environment |= made.issue().variables("LEXICAL")
    front = gateway({"lexical": lexical.url})
    (own / "pipelines").mkdir()
    (own / "pipelines" / "bm25.yaml").write_bytes((ROOT / "gateway" / "pipelines" / "bm25.yaml").read_bytes())
    front.environment["GATEWAY_PIPELINES"] = str(own / "pipelines")
    if name == "keys and TLS":
        front.trusts = made.context
        front.environment |= {"STACK_CA_FILE": str(made.ca_file), **made.issue().variables("GATEWAY")}
    if name != "without keys":
        lexical.environment["STACK_TOKEN"] = TOKEN
        front.environment |= {"STACK_TOKEN": TOKEN, "GATEWAY_KEYS_FILE": str(keys.file)}
    try:
        for one in (lexical, front):
            one.start(own / f"{one.module}.log")
        for one in (lexical, front):
            await one.ready()
        headers = bearing(None if name == "without keys" else keys.secrets["all"])
        await _load(front.url, headers, front.trusts or True, documents(rng, DOCUMENTS))
        yield Stack(name, (front, lexical), headers)
    finally:
        for one in (front, lexical):
            one.kill()


async def _load(
    url: str, headers: Mapping[str, str], verify: ssl.SSLContext | bool, batch: Sequence[dict[str, object]]
) -> None:
    path = "/v1/collections/demo"
    declared = {"metadata": {"year": "number", "kind": "keyword"}}
    async with httpx.AsyncClient(
        base_url=url, headers=dict(headers), verify=verify, timeout=60, trust_env=False
    ) as http:
        build = (await http.put(path, json=declared)).raise_for_status().json()["build"]
        for start in range(0, len(batch), 200):
            sent = {"documents": batch[start : start + 200], "build": build}
            (await http.post(f"{path}/documents", json=sent)).raise_for_status()
        (await http.post(f"{path}/publish", json={"build": build})).raise_for_status()


def _cpu_s(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _outcome(
    seed: int, stacks: Sequence[Stack], p95s: Mapping[str, Sequence[float]], answered: Mapping[str, Sequence[float]]
) -> Outcome:
    plain = statistics.median(stacks[0].cpu_ms)
    rows = [
        (
            stack.name,
            str(len(stack.ms)),
            f"{statistics.median(stack.cpu_ms):.2f}",
            f"{statistics.median(stack.cpu_ms) / plain:.2f}",
            f"{np.percentile(stack.ms, 50):.1f}",
            f"{np.percentile(stack.ms, 95):.1f}",
        )
        for stack in stacks
    ]
    ratios = {which: [beside / alone for beside, alone in zip(p95s[which], p95s[ALONE], strict=True)] for which in WAYS}
    rows += [
        (f"keys, {RIGHT_RATE:g} searches a second, {which}", f"{len(found)} turns", "", "", "", _spread(found))
        for which, found in p95s.items()
    ]
    told = " ".join(
        f"{statistics.median(rates):.0f} wrong keys a second were answered {which.rpartition(' a second ')[2]}."
        for which, rates in answered.items()
    )
    return Outcome(
        name="keys",
        says=(__doc__ or "").partition("\n\n")[2].replace("\n", " ").strip()
        + f" A turn takes {SECONDS:g} s, of {IN_FLIGHT} searches at once, or of {RIGHT_RATE:g} a second beside wrong "
        f"keys; their p95 is the median over the turns, with the least and the largest. {told}",
        seed=seed,
        columns=COLUMNS,
        rows=tuple(rows),
        bars=tuple(
            Bar(
                f"{which}, the p95 of a right one grows by a tenth at most",
                f"{statistics.median(found):.2f} times (median of {len(found)} pairs, {min(found):.2f} to "
                f"{max(found):.2f})",
                statistics.median(found) <= MOST_SLOWER,
                needs_cores=True,
            )
            for which, found in ratios.items()
        ),
        broken=(),
    )


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"
