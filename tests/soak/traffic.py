"""Searches and writes through a gateway meanwhile; counts failed and degraded searches, and lost documents."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import httpx

from services.contracts.documents import Document
from tests.soak import wire
from tests.soak.acknowledged import Ledger, document
from tests.soak.kill_writers import METADATA, Caller
from tests.soak.stack import COLLECTION, WORDS, load

DOCUMENTS = 300
PER_SECOND = 4.0
DEADLINE_MS = 10_000
WARMING = 40
DWELL_S = 3.0
WRITES_GO_ON_WITHIN_S = 60.0
STORES = ("lexical", "dense")


@dataclass
class Traffic:
    """Searches and writes through a gateway, and what became of them."""

    port: int
    stores: Mapping[str, int]  # ports of the services that store, by family
    rng: random.Random
    ledger: Ledger = field(default_factory=Ledger)
    searches: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    degraded: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0
    acknowledged: int = 0
    stuck: bool = False
    rows: list[tuple[str, ...]] = field(default_factory=list)

    async def load(self) -> None:
        """Loads the first version of every document, publishes, and sends searches that are not counted."""
        begun = self.ledger.begin([f"r-{number}" for number in range(DOCUMENTS)])
        batch = [document(identity, write.version) for identity, write in begun.items()]
        await load(self.port, COLLECTION, batch, STORES, METADATA)
        self.ledger.acknowledge(begun)
        for _ in range(WARMING):
            await self.search()
        self.searches = 0
        self.degraded.clear()
        self.failed.clear()

    async def search(self) -> None:
        """Sends one search and counts its outcome."""
        body = {"query": " ".join(self.rng.choices(WORDS, k=3)), "pipeline": "hybrid-rerank"}
        began, path = time.monotonic(), f"/v1/collections/{COLLECTION}/search"
        try:
            answer = await wire.ask(self.port, "POST", path, body, {"x-deadline-ms": str(DEADLINE_MS)})
        except (httpx.TransportError, TimeoutError) as error:
            self.failed[type(error).__name__] += 1
        else:
            if answer.status_code != 200:
                self.failed[f"{answer.status_code} {answer.json()['detail'][:300]}"] += 1
            else:
                self.degraded.update(f"{one['stage']}: {one['reason']}" for one in answer.json().get("degraded", ()))
        self.searches += 1
        self.slowest_s = max(self.slowest_s, time.monotonic() - began)

    async def _search_until(self, over: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as sent:
            due = time.monotonic()
            while not over.is_set():
                sent.create_task(self.search())
                due += 1 / PER_SECOND
                await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def _write_until(self, over: asyncio.Event) -> None:
        caller = Caller(self.port, COLLECTION)
        ids = [f"r-{number}" for number in range(DOCUMENTS)]
        while not over.is_set():
            begun = self.ledger.begin(self.rng.sample(ids, 10))
            batch = [document(identity, write.version) for identity, write in begun.items()]
            await caller.until_complete("/documents", {"documents": batch}, self.rng)
            self.ledger.acknowledge(begun)
            self.acknowledged += len(begun)
            await asyncio.sleep(0.3)

    @asynccontextmanager
    async def flowing(self) -> AsyncIterator[None]:
        """Searches and writes meanwhile; at the end the last write has to come through."""
        over = asyncio.Event()
        searching = asyncio.create_task(self._search_until(over))
        writing = asyncio.create_task(self._write_until(over))
        try:
            await asyncio.sleep(DWELL_S)
            yield
            await asyncio.sleep(DWELL_S)
        finally:
            over.set()
            await searching
            _, late = await asyncio.wait([writing], timeout=WRITES_GO_ON_WITHIN_S)
            self.stuck = bool(late)
            writing.cancel()
        if not self.stuck:
            await writing

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Adds a row with what happened meanwhile."""
        began, self.slowest_s = time.monotonic(), 0.0
        before = (self.searches, self.failed.total(), self.degraded.total(), self.acknowledged)
        yield
        after = (self.searches, self.failed.total(), self.degraded.total(), self.acknowledged)
        searches, failed, degraded, acknowledged = (str(now - then) for now, then in zip(after, before, strict=True))
        seconds = f"{time.monotonic() - began:.1f}"
        self.rows.append((name, seconds, searches, failed, degraded, f"{self.slowest_s * 1000:.0f}", acknowledged))

    async def lost(self) -> list[str]:
        """Returns a line for each document that is not held as acknowledged, and one for digests that differ."""
        ids, held = sorted(self.ledger.writes), dict[str, Document]()
        for at in range(0, len(ids), 100):
            path = f"/v1/collections/{COLLECTION}/documents/get"
            answer = await wire.ask(self.port, "POST", path, {"ids": ids[at : at + 100]})
            found = map(Document.model_validate, answer.raise_for_status().json()["documents"])
            held |= {one.id: one for one in found}
        wrong = []
        for identity in ids:
            versions = self.ledger.admissible(identity)
            possible = {Document.model_validate(document(identity, version)).content_hash for version in versions}
            if identity not in held or held[identity].content_hash not in possible:
                wrong.append(f"{identity}: {held.get(identity)}, may be {sorted(versions)}")
        live = (await wire.ask(self.port, "GET", f"/v1/collections/{COLLECTION}")).json()["live"]
        answers = [await wire.ask(port, "POST", f"/v1/collections/{live}/finish") for port in self.stores.values()]
        digests = {str(answer.raise_for_status().json()["digest"]) for answer in answers}
        return wrong + [f"{live}: digests {sorted(digests)}"] * (len(digests) > 1)
