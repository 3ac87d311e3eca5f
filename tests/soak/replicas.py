"""Breaks one of two replicas of a backend behind one address; checks that few answers are degraded."""

import asyncio
import itertools
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.soak import fault_proxy, wire
from tests.soak.fault_proxy import Balancer, FaultProxy, Toxic
from tests.soak.outcome import Bar, Outcome
from tests.soak.stack import WORDS, loaded_stack
from tests.support.processes import ROOT, Process, gateway

ANSWERS = 1_000
CALLERS = 4
DEADLINE_MS = 5_000
MOST_DEGRADED = 0.01
BACKENDS = ("lexical", "dense", "reranker")
FAULTS: dict[str, Toxic] = {
    "refused": "refused",
    "reset": "reset_peer",
    "500": "status_500",
    "503": "status_503",
    "unparsable": "garbage",
    "hung": "timeout",
}
SAYS = (
    f"Each connection to a backend reaches one of two replicas at random; one of the two is broken. {CALLERS} clients "
    f"send `hybrid-rerank` until {ANSWERS} answers have arrived, including those in flight when the replica broke. "
    "Degraded: flagged, or not answered with 200."
)


@dataclass(frozen=True, slots=True)
class ReplicaOutcome:
    """Answers degraded by one broken replica, with reasons."""

    fault: str
    backend: str
    answers: int
    degraded: tuple[str, ...]

    @property
    def share(self) -> float:
        return len(self.degraded) / self.answers

    @property
    def reasons(self) -> str:
        return ", ".join(sorted(set(self.degraded)))


async def run(seed: int, size: int = len(FAULTS) * 3, root: Path = ROOT) -> Outcome:
    """Applies every fault to one replica of every backend, or the first `size` in a seeded order."""
    cells = list(itertools.product(FAULTS, BACKENDS))
    random.Random(seed).shuffle(cells)
    rows = []
    async with _balanced(seed, root) as (process, breakable):
        for fault, backend in cells[:size]:
            await _degraded_answers(process.port, 50)
            await breakable[backend].put(FAULTS[fault])
            degraded = await _degraded_answers(process.port, ANSWERS if size > 3 else 300)
            await breakable[backend].put(None)
            rows.append(ReplicaOutcome(fault, backend, ANSWERS if size > 3 else 300, tuple(degraded)))
            await asyncio.sleep(6.0 if size > 3 else 2.0)
    return _outcome(seed, sorted(rows, key=lambda row: (list(FAULTS).index(row.fault), row.backend)))


@asynccontextmanager
async def _balanced(seed: int, root: Path) -> AsyncIterator[tuple[Process, dict[str, FaultProxy]]]:
    """Yields a gateway with two paths to each backend, and the breakable path of each."""
    async with loaded_stack(seed, root) as stack:
        sound = {name: await fault_proxy.opened(stack.port(name)) for name in BACKENDS}
        breakable = {name: await fault_proxy.opened(stack.port(name)) for name in BACKENDS}
        balancers = {name: Balancer((sound[name].port, breakable[name].port), f"{seed} {name}") for name in BACKENDS}
        for balancer in balancers.values():
            await balancer.open()
        one = gateway({name: balancer.url for name, balancer in balancers.items()}, root)
        stack.processes["balanced gateway"] = one  # ended with the others
        one.start(stack.log("balanced gateway"))
        try:
            await one.ready()
            yield one, breakable
        finally:
            for balancer in balancers.values():
                await balancer.close()
            for proxy in (*sound.values(), *breakable.values()):
                await proxy.close()


async def _degraded_answers(port: int, answers: int) -> list[str]:
    """Sends queries; returns status or reasons of each degraded answer."""
    degraded: list[str] = []
    left = iter(range(answers))

    async def caller() -> None:
        for number in left:
            query = " ".join(random.Random(number).choices(WORDS, k=3))
            body = {"query": query, "pipeline": "hybrid-rerank"}
            headers = {"x-deadline-ms": str(DEADLINE_MS)}
            reply = await wire.ask(port, "POST", "/v1/collections/demo/search", body, headers)
            value = json.loads(reply.body)
            if reply.status != 200:
                degraded.append(f"{reply.status}")
            elif value["degraded"]:
                degraded.append(", ".join(f"{one['stage']}: {one['reason']}" for one in value["degraded"]))

    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return degraded


def _outcome(seed: int, rows: list[ReplicaOutcome]) -> Outcome:
    table = [
        (
            row.fault,
            row.backend,
            str(row.answers),
            str(len(row.degraded)),
            f"{row.share:.1%}",
            ", ".join(sorted(set(row.degraded))),
        )
        for row in rows
    ]
    worst = max(row.share for row in rows)
    broken = [f"{row.fault} at one of two {row.backend}: {row.share:.1%}" for row in rows if row.share >= MOST_DEGRADED]
    return Outcome(
        name="replicas",
        says=SAYS,
        seed=seed,
        columns=("fault at one of two", "backend", "answers", "degraded", "share", "as"),
        rows=tuple(table),
        bars=(Bar("under 1 % degraded", f"{worst:.1%}", worst < MOST_DEGRADED),),
        broken=tuple(broken),
    )
