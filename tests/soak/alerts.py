"""Checks that each fault fires its alerts and no others: a real Prometheus, with all windows of the rules shorter."""

import asyncio
import contextlib
import itertools
import json
import random
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx

from tests.soak import wire
from tests.soak.disks import is_small_disk
from tests.soak.faults import BACK_WITHIN_S, DISK, MATRIX, WIRE, ProxiedStack, proxied_stack
from tests.soak.outcome import Bar, Outcome
from tests.support.processes import ALL_FAMILIES, ROOT, STORING, free_port

RULES = ROOT / "deploy" / "observability" / "alerts.yaml"
SHORTER = 120  # an hour takes 30 s
SCRAPE_S = 0.5
SEARCHES_S, WRITES_S = 6.0, 1.0
# After the last expected alert, for others; and where none is expected: slow searches burn fast after 22 s.
HOLD_S, NONE_S = 3.0, 25.0
MOST_S, SETTLED_S = 60.0, 300.0
# For Prometheus to start, and for an hour of the rules.
WARM_S = 30.0
GATEWAY = "proxied gateway"
SEARCH = "/v1/collections/demo/search"
STRICT = {"name": "strict", "stages": [{"kind": "retrieve", "backend": "lexical"}]}
# More than the 16 writes that a gateway works on at once.
WRITERS = 24
WRITERS_FAULT = f"{WRITERS} writers without pause"
DOWN = frozenset({"SearchesDegraded", "BackendSetAside", "TargetDown"})
# A process is gone as long as it starts: that fires the alerts of DOWN if it takes some seconds, minutes here.
STARTS = ("restarted", "start on a full disk")
# Beside the faults of the fault soak: what fires the other alerts.
MORE = (
    ("refused, no stage may be skipped", "lexical"),
    ("publication hung", "dense"),
    (WRITERS_FAULT, GATEWAY),
    ("killed", GATEWAY),
)
SAYS = (
    f"A Prometheus scrapes all processes every {SCRAPE_S} s and evaluates deploy/observability/alerts.yaml, whose "
    f"windows and waits are divided by {SHORTER}. {SEARCHES_S:g} searches over all five services and {WRITES_S:g} "
    "writes per second are sent throughout. Each fault is at one backend, which the seed chooses. *Fired*: "
    "seconds from the fault to the alert. *Resolved*: from the end of the fault until no alert fires.\n\n"
    "An unknown field changes no answer, and fires nothing. What is killed is kept from starting again. A start of 2 s "
    f"is one of {2 * SHORTER // 60} minutes here: `restarted` and `start on a full disk` may fire what a killed "
    "process does, in the real windows not."
)


def scaled(rules: str) -> str:
    """Returns rules with all windows, waits and offsets divided by SHORTER."""
    of = {"m": 60_000, "h": 3_600_000}
    return re.sub(r"(\[|for: |offset )(\d+)([mh])\b", lambda at: f"{at[1]}{int(at[2]) * of[at[3]] // SHORTER}ms", rules)


def expected(fault: str, backend: str) -> frozenset[str]:
    """Returns the alerts of a fault."""
    if backend == GATEWAY:
        return frozenset({"TargetDown" if fault == "killed" else "Saturated"})
    if fault in ("hung", "killed"):
        return DOWN
    match fault:
        case "unknown field" | "restarted":
            return frozenset()
        case "slow":  # lexical keeps the texts: where they are late, nothing is re-ranked
            return frozenset({"SearchesSlow", *(["SearchesDegraded"] if backend == "lexical" else [])})
        case "read-only" | "full":
            return frozenset({"WritesFailing"})
        case "full disk" | "start on a full disk":
            return frozenset({"WritesFailing", "DiskNearlyFull"})
        case "publication hung":
            return frozenset({"PublicationStuck"})
        case "refused, no stage may be skipped":
            return frozenset({"SearchesFailing", "BackendSetAside"})
        case _:
            assert fault in WIRE
            return frozenset({"SearchesDegraded", "BackendSetAside"})


@dataclass(frozen=True, slots=True)
class Fired:
    """What one fault fired, by seconds, and when all was quiet again; None: not in time."""

    fault: str
    backend: str
    alerts: Mapping[str, float]
    resolved_s: float | None

    @property
    def missing(self) -> frozenset[str]:
        return expected(self.fault, self.backend) - self.alerts.keys()

    @property
    def others(self) -> frozenset[str]:
        meanwhile = DOWN if self.fault in STARTS else frozenset()
        return frozenset(self.alerts) - expected(self.fault, self.backend) - meanwhile

    @property
    def wrong(self) -> str:
        parts = [
            f"{', '.join(sorted(self.missing))} did not fire" if self.missing else "",
            f"{', '.join(sorted(self.others))} fired" if self.others else "",
            "" if self.resolved_s is not None else f"alerts fire {MOST_S:.0f} s later",
        ]
        return "; ".join(part for part in parts if part)


@dataclass
class Rehearsal:
    """A stack under traffic, and the Prometheus that watches it."""

    proxied: ProxiedStack
    prometheus: httpx.AsyncClient
    tasks: asyncio.TaskGroup
    strict: bool = False
    writers: list[asyncio.Task[None]] = field(default_factory=list)

    async def send(self, path: str, body: object, method: str = "POST") -> None:
        """Sends one request; whether it is answered is not this soak's question."""
        with contextlib.suppress(httpx.TransportError, TimeoutError):
            await wire.ask(self.proxied.gateway.port, method, path, body, {"x-deadline-ms": "2000"}, 10.0)

    async def search_steadily(self) -> None:
        """Sends searches at a steady rate, however long the answers take."""
        started = time.monotonic()
        for number in itertools.count():
            await asyncio.sleep(started + number / SEARCHES_S - time.monotonic())
            query = self.proxied.queries[number % len(self.proxied.queries)]
            if self.strict:
                self.tasks.create_task(self.send(SEARCH, {"query": query, "pipeline": STRICT}))
            else:
                self.tasks.create_task(self.proxied.ask(query))

    async def write_steadily(self) -> None:
        """Sends writes at a steady rate."""
        started = time.monotonic()
        for number in itertools.count():
            await asyncio.sleep(started + number / WRITES_S - time.monotonic())
            batch = {"documents": [{"id": "written", "text": f"zzz{number}"}]}
            self.tasks.create_task(self.send("/v1/collections/spare/documents", batch))

    async def write_without_pause(self, place: int) -> None:
        """Sends one write after the other."""
        for number in itertools.count():
            batch = {"documents": [{"id": f"writer-{place}", "text": f"zzz{number}"}]}
            await self.send("/v1/collections/spare/documents", batch)

    async def firing(self, state: str = "firing") -> set[str]:
        """Returns the names of the alerts that fire, or of those that are pending."""
        alerts = (await self.prometheus.get("/api/v1/alerts")).json()["data"]["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == state}

    async def settled(self) -> None:
        """Waits until little of the last faults is left: the longest windows would add it to the next one's share."""
        left = {"query": "searches:slow:ratio_rate6h > 0.2 or searches:degraded:ratio_rate1h > 0.1"}
        async with asyncio.timeout(SETTLED_S):
            while True:
                answer = await self.prometheus.get("/api/v1/query", params=left)
                if not (answer.json()["data"]["result"] or await self.firing() or await self.firing("pending")):
                    return
                await asyncio.sleep(SCRAPE_S)

    async def measure(self, fault: str, backend: str) -> Fired:
        """Begins a fault, waits for its alerts and a while for others, ends it and waits until none fires."""
        await self.settled()
        began, fired, wanted = time.monotonic(), dict[str, float](), expected(fault, backend)
        applying = self.tasks.create_task(self.apply(fault, backend))
        ends_at = began + (MOST_S if wanted else NONE_S)
        while time.monotonic() < ends_at:
            await self._note(fired, began)
            if wanted and wanted <= fired.keys():
                ends_at = min(ends_at, began + max(fired.values()) + HOLD_S)
            await asyncio.sleep(SCRAPE_S / 2)
        await applying
        lifting, lifted = self.tasks.create_task(self.lift(fault, backend)), time.monotonic()
        while not lifting.done() or await self.firing():
            await self._note(fired, began)
            if time.monotonic() - lifted > MOST_S:
                return Fired(fault, backend, fired, None)
            await asyncio.sleep(SCRAPE_S / 2)
        return Fired(fault, backend, fired, time.monotonic() - lifted)

    async def _note(self, fired: dict[str, float], began: float) -> None:
        for name in await self.firing():
            fired.setdefault(name, time.monotonic() - began)

    async def apply(self, fault: str, backend: str) -> None:
        """Begins a fault."""
        match fault:
            case "refused, no stage may be skipped":
                self.strict = True
                await asyncio.sleep(1.0)  # searches under way may skip a stage
                await self.proxied.apply("refused", backend)
            case "publication hung":
                await self.send("/v1/collections/stuck", {"build": "b", "backends": list(STORING)}, "PUT")
                await self.send(
                    "/v1/collections/stuck/documents", {"build": "b", "documents": [{"id": "a", "text": "a"}]}
                )
                await self.proxied.proxies[backend].put("hung_finish")
                await self.send("/v1/collections/stuck/publish", {"build": "b"})
            case _ if fault == WRITERS_FAULT:
                self.writers = [self.tasks.create_task(self.write_without_pause(place)) for place in range(WRITERS)]
            case _:
                await self.proxied.apply(fault, backend)

    async def lift(self, fault: str, backend: str) -> None:
        """Ends it."""
        match fault:
            case "refused, no stage may be skipped":
                await self.proxied.lift("refused", backend)
                await asyncio.sleep(BACK_WITHIN_S)
                self.strict = False
            case "publication hung":
                await self.proxied.proxies[backend].put(None)
                await self.send("/v1/collections/stuck", None, "DELETE")
            case _ if fault == WRITERS_FAULT:
                for task in self.writers:
                    task.cancel()
            case _:
                await self.proxied.lift(fault, backend)


@asynccontextmanager
async def rehearsal(seed: int) -> AsyncIterator[Rehearsal]:
    """Yields a stack under traffic and its Prometheus; ends all."""
    async with proxied_stack(seed) as proxied, asyncio.TaskGroup() as tasks:
        folder, port = proxied.stack.directory / "prometheus", free_port()
        folder.mkdir()
        (folder / "alerts.yaml").write_text(scaled(RULES.read_text(encoding="utf-8")), encoding="utf-8")
        every = f"{SCRAPE_S * 1000:.0f}ms"
        targets = [
            {"targets": [f"127.0.0.1:{proxied.stack.port(name)}"], "labels": {"instance": name}}
            for name in (*ALL_FAMILIES, GATEWAY)
        ]
        configuration = {
            "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
            "rule_files": ["alerts.yaml"],
            "scrape_configs": [{"job_name": "retrieval", "static_configs": targets}],
        }
        (folder / "prometheus.yaml").write_text(json.dumps(configuration), encoding="utf-8")  # JSON is YAML
        command = ["prometheus", f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/data"]
        with (folder / "log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *command, f"--web.listen-address=127.0.0.1:{port}", stderr=log
            )
        url = f"http://127.0.0.1:{port}"
        try:
            async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=10.0) as prometheus:
                running = Rehearsal(proxied, prometheus, tasks)
                traffic = [tasks.create_task(part()) for part in (running.search_steadily, running.write_steadily)]
                try:
                    await asyncio.sleep(WARM_S)
                    yield running
                finally:
                    for task in traffic:
                        task.cancel()
        finally:
            process.terminate()
            await process.wait()


async def run(seed: int) -> Outcome:
    """Runs each fault at one of its backends, which the seed chooses, in a seeded order."""
    rng = random.Random(seed)
    order = [*MATRIX, *MORE]
    shuffled = rng.sample(order, len(order))
    one_each = {fault: (fault, backend) for fault, backend in shuffled if (fault, backend) not in MORE}
    cells = rng.sample([*one_each.values(), *MORE], len(one_each) + len(MORE))
    done: list[Fired] = []
    async with rehearsal(seed) as running:
        # Only a small disk may be filled; making one needs the right to mount.
        small = {name for name in STORING if is_small_disk(running.proxied.stack.directory / name)}
        cells = [cell for cell in cells if cell[0] not in DISK or cell[1] in small]
        for fault, backend in cells:
            try:
                done.append(await running.measure(fault, backend))
            except (TimeoutError, httpx.TransportError):
                break  # foreign load alone makes searches slow: no fault can be told from it
            print(f"{fault} at {backend}: {done[-1].wrong or 'as expected'}", flush=True)
    return _outcome(seed, sorted(done, key=lambda cell: order.index((cell.fault, cell.backend))), len(cells))


def _outcome(seed: int, cells: list[Fired], all_cells: int) -> Outcome:
    rows = tuple(
        (
            cell.fault,
            cell.backend,
            ", ".join(sorted(expected(cell.fault, cell.backend))) or "none",
            ", ".join(f"{name} {after:.1f}" for name, after in cell.alerts.items()) or "none",
            ", ".join(sorted(cell.others)) or "none",
            "no" if cell.resolved_s is None else f"{cell.resolved_s:.1f}" if cell.alerts else "",
        )
        for cell in cells
    )
    missing = sum(bool(cell.missing) for cell in cells)
    others = sum(bool(cell.others) for cell in cells)
    lasting = sum(cell.resolved_s is None for cell in cells)
    return Outcome(
        name="alerts",
        says=SAYS,
        seed=seed,
        columns=("fault", "at", "expected", "fired after, s", "others", "resolved, s"),
        rows=rows,
        bars=(
            Bar("all faults were begun on a quiet stack", f"{len(cells)} of {all_cells}", len(cells) == all_cells),
            Bar("each fault fires its alerts", f"not: {missing} of {len(cells)}" if missing else "all", not missing),
            Bar("and no others", f"others: {others} of {len(cells)}" if others else "none", not others),
            Bar("all resolve", f"not: {lasting} of {len(cells)}" if lasting else "all", not lasting),
        ),
        broken=tuple(f"{cell.fault} at {cell.backend}: {cell.wrong}" for cell in cells if cell.wrong),
    )
