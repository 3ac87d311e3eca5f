"""Measures what keys and TLS cost, and whether wrong keys slow the right ones.

Three stacks of gateway and lexical service, embedded, stand side by side: without keys, with keys and the token, and
with TLS besides. Searches take turns over them. Then searches with a right key are timed alone and beside wrong keys,
in turns: on connections that are kept, where each wrong key is answered later than the one before, and on a new
connection each, where it is answered at once. Wrong keys come at a steady rate, from this machine too: what it takes to
send them counts against us.
"""

import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from evaluator.load.sending.drives import run_generators
from evaluator.load.sending.load_loop import GeneratorTask, SendRecord
from retrieval_client import AsyncClient
from tests.soak.outcome import Bar, Outcome
from tests.soak.stack import METADATA, WORDS, documents
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
        return sum(_cpu_s(process.pid) for process in self.processes)


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
            p95s: dict[str, list[float]] = {which: [] for which in (ALONE, *WAYS)}
            answered: dict[str, list[float]] = {which: [] for which in WAYS}
            for _ in range(size):
                for which in rng.sample(sorted(p95s), len(p95s)):
                    async with _flood(stacks[1].processes[0].port, which, answered):
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


@asynccontextmanager
async def _flood(port: int, which: str, answered: Mapping[str, list[float]]) -> AsyncIterator[None]:
    """Sends wrong keys to a port meanwhile, and adds how many a second were answered; ALONE sends nothing."""
    if which == ALONE:
        yield
        return
    seconds = LEAD_S + WARMUP_S + SECONDS
    given = [str(port), str(RATE), str(seconds), WAYS[which]]
    sender = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.soak.wrong_keys", *given, cwd=ROOT, stdout=subprocess.PIPE
    )
    try:
        yield
        printed, _ = await sender.communicate()
    finally:
        if sender.returncode is None:
            sender.kill()
            await sender.wait()
    answers: dict[str, int] = json.loads(printed)
    assert set(answers) == {"401"}, answers
    answered[which].append(answers["401"] / seconds)


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
    statuses = {None if record.reply is None else record.reply.status for record in records}
    assert statuses == {status}, statuses
    return [(record.done_s - record.planned_s) * 1000 for record in records if record.planned_s >= WARMUP_S]


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
        for process in (lexical, front):
            process.start(own / f"{process.module}.log")
        for process in (lexical, front):
            await process.ready()
        key = None if name == "without keys" else keys.secrets["all"]
        async with AsyncClient(front.url, key=key, ca_file=made.ca_file) as client:
            build = (await client.begin("demo", metadata=METADATA)).build
            await client.load("demo", documents(rng, DOCUMENTS), build=build)
            await client.publish("demo", build=build)
        yield Stack(name, (front, lexical), bearing(key))
    finally:
        for process in (front, lexical):
            process.kill()


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
        (f"keys, {RIGHT_RATE:g} searches a second, {which}", f"{len(times)} turns", "", "", "", _spread(times))
        for which, times in p95s.items()
    ]
    answers = " ".join(
        f"{statistics.median(rates):.0f} wrong keys a second were answered {which.rpartition(' a second ')[2]}."
        for which, rates in answered.items()
    )
    return Outcome(
        name="keys",
        says=(__doc__ or "").partition("\n\n")[2].replace("\n", " ").strip()
        + f" A turn takes {SECONDS:g} s, of {IN_FLIGHT} searches at once, or of {RIGHT_RATE:g} a second beside wrong "
        f"keys; their p95 is the median over the turns, with the least and the largest. {answers}",
        seed=seed,
        columns=COLUMNS,
        rows=tuple(rows),
        bars=tuple(
            Bar(
                f"{which}, the p95 of a right one grows by a tenth at most",
                f"{statistics.median(pairs):.2f} times (median of {len(pairs)} pairs, {min(pairs):.2f} to "
                f"{max(pairs):.2f})",
                statistics.median(pairs) <= MOST_SLOWER,
                needs_cores=True,
            )
            for which, pairs in ratios.items()
        ),
        broken=(),
    )


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"
