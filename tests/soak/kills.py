"""Kills the loader and all storing services with SIGKILL during writes; checks that acknowledged writes survive."""

import asyncio
import itertools
import random
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from services.contracts.documents import Document
from tests.soak import wire
from tests.soak.acknowledged import DELETED, Ledger, document, own_score, passage
from tests.soak.fault_proxy import JITTER_S, FaultProxy
from tests.soak.kill_writers import (
    COMMON_IDS,
    CORPUS,
    LOADED,
    METADATA,
    OWN_IDS,
    REBUILT,
    REBUILT_IDS,
    SHARED,
    Caller,
    Loader,
    Rebuilder,
    Writer,
    rebuilt,
)
from tests.soak.outcome import Bar, Outcome
from tests.soak.stack import LoadedStack, load
from tests.support.processes import ALL_FAMILIES, STORING, VECTORS, gateway, started

CALM_AFTER = 10  # kills of each
RECOVERED_WITHIN_S = 60.0
BREAKERS_CLOSE_S = 2.0  # else the last of the race are sent again one by one
SAME_VECTOR = 0.99  # of the score of a passage for itself; another version has at most a half
SAYS = (
    f"Two writers, each with a gateway of its own, change one collection at once: each {OWN_IDS} ids of its own, and "
    f"both {COMMON_IDS} common ids. They send batches and deletions and publish; a batch is repeated until it is "
    "acknowledged. "
    "Before each comparison both write all common ids four times at once. Requests from the gateways to the services "
    f"are delayed at random by up to {JITTER_S} s, so that batches overtake one another.\n\n"
    f"Two builders rebuild a second collection of {REBUILT_IDS} documents in batches of five. In between they begin it "
    "without a build, write one document and publish. Before each comparison both build it at once, and the live "
    "generation must be a build that was acknowledged. The loader (`.venv/bin/python -m evaluator ingest`, every "
    f"other time with `--rebuild`) loads {CORPUS} documents with new texts again and again.\n\n"
    f"After every {CALM_AFTER} kills of each process all writing stops, and all four services are compared with what "
    "was acknowledged: texts by `documents/get`, vectors by an exact search for the passage, which scores as much as "
    "the passage for itself only where the vector is that text's, and everything by the digests."
)


@dataclass
class Kills:
    """Kills and findings of a run."""

    stack: LoadedStack
    loader: Loader
    rng: random.Random
    seed: int
    ledger: Ledger = field(default_factory=Ledger)
    killed: Counter[str] = field(default_factory=Counter)
    checks: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    refusals: Counter[str] = field(default_factory=Counter)
    builds: int = 0
    lacking: int = 0

    async def stretch(self, victims: Sequence[str]) -> None:
        """Writes, loads and kills; then stops the writers and compares."""
        resting = asyncio.Event()
        ports = [self.stack.port("gateway"), self.stack.port("second gateway")]
        callers = [Caller(port, name) for port, name in itertools.product(ports, (SHARED, REBUILT))]
        writers = [
            Writer(name, caller, self.ledger, random.Random(self.rng.random()), resting)
            for name, caller in zip("ab", callers[::2], strict=True)
        ]
        rebuilders = [
            Rebuilder(f"{name}-{self.killed.total()}", caller, random.Random(self.rng.random()), resting)
            for name, caller in zip("ab", callers[1::2], strict=True)
        ]
        work = [*(writer.work() for writer in writers), *(rebuilder.work() for rebuilder in rebuilders)]
        tasks = [asyncio.create_task(coroutine) for coroutine in work]
        for victim in victims:
            await self._kill(victim)
        self.loader.kill()
        resting.set()
        for name in STORING:
            await self.stack.processes[name].ready()
        late = (await asyncio.wait(tasks, timeout=RECOVERED_WITHIN_S))[1]
        for task in late:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
        duels: set[int] = set()
        if not late:
            await asyncio.sleep(BREAKERS_CLOSE_S)
            await asyncio.gather(*(writer.duel() for writer in writers))
            built = await asyncio.gather(*(rebuilder.build() for rebuilder in rebuilders))
            duels = {version for version in built if version is not None}
        self.refusals += sum((caller.refusals for caller in callers), Counter())
        self.builds += sum(rebuilder.acknowledged for rebuilder in rebuilders)
        at = f"after {self.killed.total()} kills (seed {self.seed})"
        self.broken += [f"{at}: {line}" for rebuilder in rebuilders for line in rebuilder.lacking]
        self.lacking += sum(len(rebuilder.lacking) for rebuilder in rebuilders)
        if late:
            what = f"{len(late)} writers got no batch through within {RECOVERED_WITHIN_S:.0f} s"
            self.broken.append(f"{at}: {what}: {dict(self.refusals)}")
        if status := await self.loader.complete():
            self.broken.append(f"{at}: the loader ended with {status}: {self.loader.said()[-400:]!r}")
        if not duels:
            self.broken.append(f"{at}: of two builds at once none was acknowledged: {dict(self.refusals)}")
        await self.compare(at, sum(writer.acknowledged for writer in writers), duels)

    async def _kill(self, victim: str) -> None:
        """Kills a process at a random moment of its work."""
        if self.loader.ended:
            self.loader.start()
        await asyncio.sleep(self.rng.uniform(0.0, 2.5 if victim == "loader" else 1.2))
        self.killed[victim] += 1
        if victim == "loader":
            self.loader.kill()
            return
        process = self.stack.processes[victim]
        process.kill()
        process.start(self.stack.log(victim))
        if self.rng.random() < 0.8:  # else the next kill may meet it while it starts
            await process.ready()

    async def compare(self, at: str, acknowledged: int, built: set[int]) -> None:
        """Compares every id in all four services with its admissible versions; `built`: those of the last builds."""
        shared = {identity: self.ledger.admissible(identity) for identity in sorted(self.ledger.writes)}
        loaded = {f"l-{number}": {self.loader.round} for number in range(CORPUS)}
        # Where no build was acknowledged, whoever's version: but every id, and all services the same of each.
        whole = dict.fromkeys((rebuilt(number) for number in range(REBUILT_IDS)), built or None)
        counts = [
            await self._compared(at, collection, wanted)
            for collection, wanted in ((SHARED, shared), (LOADED, loaded), (REBUILT, whole))
        ]
        lost, differing = (sum(column) for column in zip(*counts, strict=True))
        compared = len(shared) + len(loaded) + len(whole)
        self.checks.append((self.killed.total(), acknowledged, compared, lost, differing))

    async def _compared(self, at: str, collection: str, wanted: Mapping[str, set[int] | None]) -> tuple[int, int]:
        """Counts lost or wrong ids, and ids whose text and vector differ. None: any version is admissible."""
        live = await self._live(collection)
        if live is None:
            self.broken.append(f"{at}: {collection} has no live generation")
            return len(wanted), 0
        texts = await self._texts(live, list(wanted))
        lost = differing = 0
        for identity, admissible in wanted.items():
            held = texts.get(identity, DELETED)
            versions = {held} - {DELETED, -1} if admissible is None else admissible
            vectors = {family: await self._vector(family, live, identity, versions | {held}) for family in VECTORS}
            if held in versions and set(vectors.values()) == {held}:
                continue
            wrong = held not in versions or not versions.issuperset(vectors.values())
            lost += wrong
            differing += not wrong
            last = [write.version for write in self.ledger.writes.get(identity, ())][-4:]
            what = f"lexical {held}, {vectors}, may be {sorted(versions)}, written {last}"
            self.broken.append(f"{at}: {live} {identity}: {what}")
        digests = [await self._digest(family, live) for family in STORING]
        if not lost and not differing and len(set(digests)) > 1:
            differing += 1
            self.broken.append(f"{at}: {live}: digests {digests}")
        return lost, differing

    async def _digest(self, family: str, live: str) -> str:
        """Returns a service's digest of ids and contents of a generation."""
        answer = await wire.ask(self.stack.port(family), "POST", f"/v1/collections/{live}/finish")
        return str(answer.raise_for_status().json()["digest"])

    async def _live(self, collection: str) -> str | None:
        view = await wire.ask(self.stack.port("gateway"), "GET", f"/v1/collections/{collection}")
        live = view.raise_for_status().json()["live"]
        return str(live) if live else None

    async def _texts(self, live: str, ids: Sequence[str]) -> dict[str, int]:
        """Returns versions by id in the lexical service; -1 for a text of no version of the id."""
        path = f"/v1/collections/{live}/documents/get"
        answer = await wire.ask(self.stack.port("lexical"), "POST", path, {"ids": ids})
        versions = {}
        for held in map(Document.model_validate, answer.raise_for_status().json()["documents"]):
            version = int((held.title or "").removeprefix("v"))
            written = Document.model_validate(document(held.id, version))
            versions[held.id] = version if held.content_hash == written.content_hash else -1
        return versions

    async def _vector(self, family: str, live: str, identity: str, versions: set[int]) -> int:
        """Returns the version whose vector a service holds; 0: no vector, -1: of no version in question."""
        own = {"all": [{"field": "own", "op": "eq", "value": identity}]}
        held = DELETED
        for version in sorted(versions - {DELETED, -1}, reverse=True) or [1]:
            text = passage(identity, version)
            search = {"query": text, "top": 1, "exact": True, "filter": own}
            answer = await wire.ask(self.stack.port(family), "POST", f"/v1/collections/{live}/search", search)
            for hit in answer.raise_for_status().json()["hits"]:
                if hit["score"] > SAME_VECTOR * own_score(family, text):
                    return version
                held = -1
        return held


async def run(seed: int, size: int = 50) -> Outcome:
    """Kills the loader and each service that stores `size` times."""
    rng = random.Random(seed)
    async with _running(seed) as stack:
        loader = Loader(stack.directory, stack.processes["gateway"].url)
        kills = Kills(stack, loader, rng, seed)
        try:
            for begun in range(0, size, CALM_AFTER):
                victims = ["loader", *STORING] * min(CALM_AFTER, size - begun)
                rng.shuffle(victims)
                await kills.stretch(victims)
        finally:
            loader.kill()
        return _outcome(seed, kills)


@asynccontextmanager
async def _running(seed: int) -> AsyncIterator[LoadedStack]:
    """Yields two gateways over delaying proxies, with both collections published."""
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        directory = Path(name)
        async with started(directory, families=ALL_FAMILIES) as processes:
            stack = LoadedStack(processes, directory)
            proxies = {name: await FaultProxy(stack.port(name), f"{seed} {name}").open() for name in ALL_FAMILIES}
            urls = {family: proxy.url for family, proxy in proxies.items()}
            processes["gateway"].kill()
            for process in ("gateway", "second gateway"):
                processes[process] = gateway(urls)
                processes[process].start(stack.log(process))
                await processes[process].ready()
            whole = [document(rebuilt(number), 1) for number in range(REBUILT_IDS)]
            for collection, batch in ((SHARED, [document("x", 1)]), (REBUILT, whole)):
                await load(stack.port("gateway"), collection, batch, STORING, METADATA)
            for family in STORING:
                await proxies[family].put("jitter")
            try:
                yield stack
            finally:
                for proxy in proxies.values():
                    await proxy.close()


def _outcome(seed: int, kills: Kills) -> Outcome:
    lost = sum(check[3] for check in kills.checks)
    differing = sum(check[4] for check in kills.checks)
    stuck = [
        line for line in kills.broken if any(sign in line for sign in ("writers got", "loader ended", "two builds"))
    ]
    acknowledged = sum(check[1] for check in kills.checks)
    killed = ", ".join(f"{victim} {count}" for victim, count in sorted(kills.killed.items()))
    done = f"{acknowledged} documents and {kills.builds} builds were acknowledged to the writers"
    refused = ", ".join(f"{what}: {count}" for what, count in sorted(kills.refusals.items()))
    return Outcome(
        name="kills",
        says=f"{SAYS}\n\nKilled: {killed}. {done}; requests refused or unanswered meanwhile: {refused or 'none'}.",
        seed=seed,
        columns=("kills so far", "acknowledged since", "ids compared", "lost or wrong", "differing"),
        rows=tuple(tuple(map(str, check)) for check in kills.checks),
        bars=(
            Bar("every acknowledged document is in all four services", f"{lost} lost or wrong", not lost),
            Bar("texts and vectors are of the same version", f"{differing} differ", not differing),
            Bar(
                "no read of a collection during its rebuild misses a document",
                f"{kills.lacking} did",
                not kills.lacking,
            ),
            Bar("writers, builders and loader go on by themselves", f"{len(stuck)} did not", not stuck),
        ),
        broken=tuple(kills.broken),
    )
