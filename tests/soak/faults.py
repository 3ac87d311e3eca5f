"""Checks every fault at every backend: answers are in time and flagged, and soon complete again."""

import asyncio
import itertools
import random
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx

from tests.soak import wire
from tests.soak.disks import fill_disk, free_disk, is_small_disk
from tests.soak.fault_proxy import LATENCY_S, FaultProxy, Toxic
from tests.soak.outcome import Bar, Outcome
from tests.soak.stack import WORDS, LoadedStack, load, loaded_stack
from tests.support.processes import ALL_FAMILIES, STORING, Process, gateway

DEADLINE_MS = 2_000
LATE_S = 0.05
BACK_WITHIN_S = 5.0
FAULT_S = 4.0
CALLERS = 4
# `hybrid-rerank` with two more inputs, and a stage that re-ranks by stored vectors.
LEGS = [
    {"kind": "retrieve", "id": name, "backend": backend, "top": 200, "on_failure": "skip"}
    for name, backend in zip(("bm25", "dense", "splade", "colbert"), STORING, strict=True)
]
PIPELINE = {
    "name": "all",
    "stages": [
        {"kind": "fuse", "id": "fuse", "method": "weighted", "normalisation": "z-score", "inputs": LEGS},
        {"kind": "rerank", "id": "maxsim", "backend": "late_interaction", "weight": 0.5, "on_failure": "skip"},
        {"kind": "rerank", "id": "rerank", "backend": "reranker", "weight": 0.3, "on_failure": "skip"},
    ],
}
# On the wire between the gateway and a service that is well.
WIRE: dict[str, Toxic] = {
    "refused": "refused",
    "reset": "reset_peer",
    "500": "status_500",
    "503": "status_503",
    "unparsable": "garbage",
    "unknown field": "unknown_field",
    "slow": "latency",
    "slow body": "slicer",
    "hung wire": "timeout",
}
# The process itself.
PROCESS = ("hung", "killed", "restarted")
# Faults of writes alone: reads work, so no answer may be degraded.
STORE: dict[str, Toxic | None] = {"read-only": "read_only", "full": "full", "full disk": None}
DISK = ("full disk", "start on a full disk")  # for real, on a small disk of its own
SAYS = (
    f"{CALLERS} clients send a pipeline over all five services without pause, with a deadline of {DEADLINE_MS} ms, "
    f"while the fault lasts ({FAULT_S:.0f} s). *Late*: by how much the slowest answer exceeded its deadline. "
    "*Unflagged*: answers of status 200 that list nothing as degraded, but differ in a hit from the answer without a "
    "fault. *Back*: seconds from the end of the fault to the first of three complete answers in a row."
)


@dataclass(frozen=True, slots=True)
class Answer:
    """Outcome of one query. Status 0: no answer."""

    status: int
    seconds: float
    degraded: tuple[str, ...]
    whole: bool


@dataclass(frozen=True, slots=True)
class FaultOutcome:
    """Answers during and after one fault at one backend."""

    fault: str
    backend: str
    answers: tuple[Answer, ...]
    back_s: float
    unsaid: int = 0  # writes during the fault that were acknowledged or unanswered

    @property
    def late_ms(self) -> float:
        return (max(answer.seconds for answer in self.answers) - DEADLINE_MS / 1000) * 1000

    @property
    def unflagged(self) -> int:
        return sum(
            not answer.status or (answer.status == 200 and not answer.degraded and not answer.whole)
            for answer in self.answers
        )

    @property
    def wrong(self) -> str:
        parts = [
            f"{self.late_ms:.0f} ms late" if self.late_ms > LATE_S * 1000 else "",
            f"{self.unflagged} unflagged" if self.unflagged else "",
            f"back after {self.back_s:.1f} s" if self.back_s > BACK_WITHIN_S else "",
            "degraded by a field that it need not know"
            if self.fault == "unknown field" and any(answer.degraded for answer in self.answers)
            else "",
            "degraded although it answers in time"
            if self.fault == "slow" and any(answer.degraded for answer in self.answers)
            else "",
            "searches degraded by a store that reads"
            if self.fault in STORE and any(not answer.whole for answer in self.answers)
            else "",
            f"{self.unsaid} writes called complete" if self.unsaid else "",
        ]
        return ", ".join(part for part in parts if part)


@dataclass
class ProxiedStack:
    """A gateway over proxies, with its answers without a fault."""

    stack: LoadedStack
    gateway: Process
    proxies: dict[str, FaultProxy]
    queries: tuple[str, ...]
    whole: dict[str, object] = field(default_factory=dict)

    async def ask(self, query: str) -> Answer:
        started = time.monotonic()
        body = {"query": query, "pipeline": PIPELINE}
        headers = {"x-deadline-ms": str(DEADLINE_MS)}
        try:
            reply = await wire.ask(self.gateway.port, "POST", "/v1/collections/demo/search", body, headers, 30)
        except (httpx.TransportError, TimeoutError):
            return Answer(0, time.monotonic() - started, (), False)
        value = reply.json()
        degraded = tuple(f"{stage['stage']}: {stage['reason']}" for stage in value.get("degraded", ()))
        same = reply.status_code == 200 and value["hits"] == self.whole.get(query, value["hits"])
        if query not in self.whole:
            assert reply.status_code == 200, value
            assert not degraded, value
            self.whole[query] = value["hits"]
        return Answer(reply.status_code, time.monotonic() - started, degraded, same and not degraded)

    async def _ask_for(self, seconds: float) -> list[Answer]:
        answers: list[Answer] = []
        ends_at = time.monotonic() + seconds

        async def caller(place: int) -> None:
            for number in itertools.count(place):
                if time.monotonic() > ends_at:
                    return
                answers.append(await self.ask(self.queries[number % len(self.queries)]))

        await asyncio.gather(*(caller(place) for place in range(CALLERS)))
        return answers

    async def _write_probe(self) -> str:
        """Writes a document that no query finds; returns complete, refused or no answer."""
        batch = {"documents": [{"id": "written", "text": f"zzz{time.monotonic_ns()}"}]}
        try:
            reply = await wire.ask(self.gateway.port, "POST", "/v1/collections/spare/documents", batch)
        except (httpx.TransportError, TimeoutError):
            return "no answer"
        return "complete" if reply.status_code == 200 and reply.json()["complete"] else "refused"

    async def measure(self, fault: str, backend: str, seconds: float) -> FaultOutcome:
        """Applies a fault, queries, lifts it, and queries until answers are complete again."""
        await self.apply(fault, backend)
        answers, unsaid = await self._ask_for(seconds), 0
        if fault in STORE:
            unsaid = sum([await self._write_probe() != "refused" for _ in range(5)])
        await self.lift(fault, backend)
        returned, back_s, row = time.monotonic(), 0.0, 0
        while row < 3:
            asked_at = time.monotonic()
            answer = await self.ask(self.queries[row])
            answers.append(answer)
            whole = answer.whole and (fault not in STORE or await self._write_probe() == "complete")
            row, back_s = (row + 1, back_s if row else asked_at - returned) if whole else (0, back_s)
            if asked_at - returned > 4 * BACK_WITHIN_S:
                # It does not recover: a new gateway keeps this fault from the next one.
                self.gateway.kill()
                self.gateway.start(self.stack.log("proxied gateway"))
                await self.gateway.ready()
                return FaultOutcome(fault, backend, tuple(answers), asked_at - returned, unsaid)
            await asyncio.sleep(0.05)
        return FaultOutcome(fault, backend, tuple(answers), back_s, unsaid)

    async def _restart(self, backend: str) -> None:
        process = self.stack.processes[backend]
        process.kill()
        process.start(self.stack.log(backend))
        await process.ready()

    async def apply(self, fault: str, backend: str) -> None:
        """Begins a fault at a backend."""
        process = self.stack.processes[backend]
        match fault:
            case "hung":
                process.send(signal.SIGSTOP)
            case "killed":
                process.kill()
            case "restarted":
                process.kill()
                process.start(self.stack.log(backend))
            case "full disk":
                fill_disk(self.stack.directory / backend)
            case "start on a full disk":
                fill_disk(self.stack.directory / backend)
                await self._restart(backend)
            case _:
                await self.proxies[backend].put({**WIRE, **STORE}[fault])

    async def lift(self, fault: str, backend: str) -> None:
        """Ends it."""
        process = self.stack.processes[backend]
        match fault:
            case "hung":
                process.send(signal.SIGCONT)
            case "killed":
                process.start(self.stack.log(backend))
                await process.ready()
            case "restarted":
                await process.ready()
            case "full disk":
                free_disk(self.stack.directory / backend)
            case "start on a full disk":
                free_disk(self.stack.directory / backend)
                await self._restart(backend)
            case _:
                await self.proxies[backend].put(None)


@asynccontextmanager
async def proxied_stack(seed: int) -> AsyncIterator[ProxiedStack]:
    """Yields all services, a gateway over proxies of them, and the collections `demo` and `spare`."""
    async with loaded_stack(seed, small_disks=True, families=ALL_FAMILIES) as stack:
        proxies = {name: await FaultProxy(stack.port(name)).open() for name in ALL_FAMILIES}
        proxied = gateway({name: proxy.url for name, proxy in proxies.items()})
        stack.processes["proxied gateway"] = proxied  # ended with the others
        proxied.start(stack.log("proxied gateway"))
        try:
            await proxied.ready()
            rng = random.Random(seed)
            queries = tuple(" ".join(rng.choices(WORDS, k=3)) for _ in range(5))
            proxied_stack = ProxiedStack(stack, proxied, proxies, queries)
            await load(proxied.port, "spare", [{"id": "written", "text": "zzz"}], STORING)
            for query in queries:
                await proxied_stack.ask(query)
            yield proxied_stack
        finally:
            for proxy in proxies.values():
                await proxy.close()


MATRIX = (
    *((fault, backend) for fault in (*WIRE, *PROCESS) for backend in ALL_FAMILIES),
    *((fault, backend) for fault in (*STORE, DISK[1]) for backend in STORING),
)


async def run(seed: int, size: int = len(MATRIX)) -> Outcome:
    """Runs all faults in a seeded order, or the first `size` of them."""
    cells = list(MATRIX)
    random.Random(seed).shuffle(cells)
    async with proxied_stack(seed) as proxied:
        done = []
        for fault, backend in cells[:size]:
            # Only a small disk may be filled; making one needs the right to mount.
            if fault not in DISK or is_small_disk(proxied.stack.directory / backend):
                done.append(await proxied.measure(fault, backend, FAULT_S if size > 9 else 1.5))
    return _outcome(seed, sorted(done, key=lambda cell: MATRIX.index((cell.fault, cell.backend))))


def _outcome(seed: int, cells: list[FaultOutcome]) -> Outcome:
    rows = []
    for cell in cells:
        said = sorted({stage for answer in cell.answers for stage in answer.degraded})
        statuses = sorted({answer.status for answer in cell.answers})
        flagged = sum(bool(answer.degraded) for answer in cell.answers)
        rows.append((
            cell.fault, cell.backend, str(len(cell.answers)), ", ".join(map(str, statuses)), str(flagged),
            ", ".join(said) or "nothing", str(cell.unflagged), f"{max(0.0, cell.late_ms):.0f}", f"{cell.back_s:.1f}",
        ))  # fmt: skip
    late = max(cell.late_ms for cell in cells)
    unflagged = sum(cell.unflagged for cell in cells)
    back = max(cell.back_s for cell in cells)
    unknown = [cell.backend for cell in cells if cell.fault == "unknown field" and cell.wrong]
    slow = [cell.backend for cell in cells if cell.fault == "slow" and cell.wrong]
    store = [f"{cell.fault} {cell.backend}" for cell in cells if cell.fault in STORE and cell.wrong]
    return Outcome(
        name="faults",
        says=SAYS,
        seed=seed,
        columns=("fault", "backend", "answers", "statuses", "flagged", "as", "unflagged", "late, ms", "back, s"),
        rows=tuple(rows),
        bars=(
            Bar("no answer later than deadline + 50 ms", f"{late:+.0f} ms", late <= LATE_S * 1000),
            Bar("none unflagged", str(unflagged), not unflagged),
            Bar("whole again within 5 s of the return", f"{back:.1f} s", back <= BACK_WITHIN_S),
            Bar("an unknown field degrades nothing", ", ".join(unknown) or "nothing", not unknown),
            Bar(
                f"answers {LATENCY_S} s late are waited for",
                f"not: {', '.join(slow)}" if slow else "all",
                not slow,
                needs_cores=True,
            ),
            Bar(
                "a store that cannot write says so and is searched as before",
                f"not: {', '.join(store)}" if store else "all",
                not store,
            ),
        ),
        broken=tuple(f"{cell.fault} at {cell.backend}: {cell.wrong}" for cell in cells if cell.wrong),
    )
