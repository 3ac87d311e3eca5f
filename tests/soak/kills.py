"""kill -9 of the loader and of both storing services while two writers write: what was acknowledged is there."""

import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from services.contracts.documents import Document
from tests.processes import ROOT, started
from tests.soak import wire
from tests.soak.acknowledged import DELETED, Ledger, document, passage
from tests.soak.outcome import Bar, Outcome
from tests.soak.stack import Loaded

SHARED = "shared"
LOADED = "loaded"
OWN_IDS, COMMON_IDS, CORPUS = 60, 40, 400
CALM_AFTER = 10  # kills of each
RECOVERED_WITHIN_S = 60.0
STORING = ("lexical", "dense")
SAYS = (
    f"Two writers change one collection at once: {OWN_IDS} ids each of their own, {COMMON_IDS} in common; batches, "
    "deletions, publishing; each sends a batch again until it is acknowledged whole. The loader (`python -m evaluator "
    f"ingest`, every other time `--rebuild`) loads {CORPUS} documents with new texts again and again. After every "
    f"{CALM_AFTER} kills of each everything rests and both services are compared with what was acknowledged: texts by "
    "`documents/get`, vectors by an exact search for the passage, which scores 1 only where its vector is that text's."
)


@dataclass
class Writer:
    """One of two writers, at work until told to rest."""

    name: str
    port: int
    ledger: Ledger
    rng: random.Random
    resting: asyncio.Event = field(default_factory=asyncio.Event)
    acknowledged: int = 0
    refusals: Counter[str] = field(default_factory=Counter)

    async def write(self) -> None:
        """Batches, now and then a deletion or a publishing, until `resting` is set; the last batch is completed."""
        ids = [f"{self.name}-{number}" for number in range(OWN_IDS)] + [f"c-{number}" for number in range(COMMON_IDS)]
        while not self.resting.is_set():
            chosen = self.rng.sample(ids, self.rng.randrange(1, 30))
            match self.rng.randrange(10):
                case 0:
                    await self._until_complete([one for one in chosen if one[0] != "c"], delete=True)
                case 1:
                    await self._ask("PUT", "", {"metadata": {"own": "keyword"}})
                    await self._ask("POST", "/publish", None)
                case _:
                    await self._until_complete(chosen, delete=False)

    async def _until_complete(self, ids: list[str], *, delete: bool) -> None:
        if not ids:
            return
        begun = self.ledger.begin(ids, delete=delete)
        body: dict[str, object] = {"ids": ids}
        if not delete:
            body = {"documents": [document(one, write.version) for one, write in begun.items()]}
        while True:
            answer = await self._ask("POST", "/documents/delete" if delete else "/documents", body)
            if answer is not None and answer.status == 200 and b'"complete":true' in answer.body:
                break
            await asyncio.sleep(self.rng.uniform(0.02, 0.2))
        self.ledger.acknowledge(begun)
        self.acknowledged += len(ids)

    async def _ask(self, method: str, path: str, body: object) -> wire.Reply | None:
        headers = {"x-deadline-ms": "10000"}
        try:
            answer = await wire.ask(self.port, method, f"/v1/collections/{SHARED}{path}", body, headers, 15)
        except (OSError, TimeoutError) as error:
            self.refusals[type(error).__name__] += 1
            return None
        if answer.status != 200:
            self.refusals[str(answer.status)] += 1
        return answer


class Loader:
    """The evaluator's loader over a corpus whose texts are new with every round."""

    def __init__(self, directory: Path, gateway: str, root: Path) -> None:
        self.round = 0
        self._directory = directory / "corpus"
        self._environment = {**os.environ, "GATEWAY_URL": gateway, "EVALUATOR_RUNS": f"{directory}/runs"}
        self._log = directory / "loader.log"
        self._root = root
        self._running: subprocess.Popen[bytes] | None = None
        (self._directory / "qrels").mkdir(parents=True)
        (self._directory / "queries.jsonl").write_text('{"_id": "q", "text": "tea"}\n', encoding="utf-8")
        (self._directory / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\tl-0\t1\n", encoding="utf-8")

    def start(self) -> None:
        """Begins the next round."""
        self.round += 1
        with (self._directory / "corpus.jsonl").open("w", encoding="utf-8") as corpus:
            for number in range(CORPUS):
                one = document(f"l-{number}", self.round)
                corpus.write(
                    json.dumps(
                        {"_id": one["id"], "title": one["title"], "text": one["text"], "metadata": one["metadata"]}
                    )
                    + "\n"
                )
        command = [
            sys.executable,
            "-m",
            "evaluator",
            "ingest",
            "--collection",
            LOADED,
            "--dataset",
            str(self._directory),
        ]
        with self._log.open("ab") as log:
            self._running = subprocess.Popen(
                command + ["--rebuild"] * (self.round % 2),
                cwd=self._root,
                env=self._environment,
                stdout=log,
                stderr=log,
            )

    @property
    def ended(self) -> bool:
        return self._running is None or self._running.poll() is not None

    def kill(self) -> None:
        if self._running is not None:
            self._running.kill()
            self._running.wait()

    async def complete(self) -> int:
        """Waits for the end of a round that nobody disturbs; its exit status."""
        self.start()
        assert self._running is not None
        return await asyncio.to_thread(self._running.wait, 120)

    def said(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")[-1_500:]


@dataclass
class Kills:
    """The run: whom it killed, what it found."""

    stack: Loaded
    loader: Loader
    rng: random.Random
    seed: int
    ledger: Ledger = field(default_factory=Ledger)
    killed: Counter[str] = field(default_factory=Counter)
    checks: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    refusals: Counter[str] = field(default_factory=Counter)

    async def stretch(self, victims: Sequence[str]) -> None:
        """Writes, loads and kills; then rests and compares."""
        writers = [
            Writer(name, self.stack.port("gateway"), self.ledger, random.Random(self.rng.random()))
            for name in ("a", "b")
        ]
        tasks = [asyncio.create_task(writer.write()) for writer in writers]
        for victim in victims:
            if self.loader.ended:
                self.loader.start()
            await asyncio.sleep(self.rng.uniform(0.0, 2.5 if victim == "loader" else 1.2))
            self.killed[victim] += 1
            if victim == "loader":
                self.loader.kill()
                continue
            process = self.stack.processes[victim]
            process.kill()
            process.start(self.stack.log(victim))
            if self.rng.random() < 0.8:  # else the next kill may meet it while it starts
                await process.ready()
        self.loader.kill()
        for writer in writers:
            writer.resting.set()
        for name in STORING:
            await self.stack.processes[name].ready()
        late = (await asyncio.wait(tasks, timeout=RECOVERED_WITHIN_S))[1]
        for task in late:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for task in tasks:
            if not task.cancelled() and task.exception() is not None:
                raise task.exception() or AssertionError
        self.refusals += sum((writer.refusals for writer in writers), Counter())
        at = f"after {self.killed.total()} kills (seed {self.seed})"
        if late:
            self.broken.append(
                f"{at}: {len(late)} writers got no batch through within {RECOVERED_WITHIN_S:.0f} s: {self.refusals}"
            )
        if status := await self.loader.complete():
            self.broken.append(f"{at}: the loader ended with {status}: {self.loader.said()[-400:]}")
        await self.compare(at, sum(writer.acknowledged for writer in writers))

    async def compare(self, at: str, acknowledged: int) -> None:
        """Every id in both services, against the versions that may stand there."""
        shared = {identity: self.ledger.admissible(identity) for identity in sorted(self.ledger.writes)}
        loaded = {f"l-{number}": {self.loader.round} for number in range(CORPUS)}
        lost = differing = 0
        for collection, wanted in ((SHARED, shared), (LOADED, loaded)):
            live = await self._live(collection)
            if live is None:
                self.broken.append(f"{at}: {collection} has no live generation")
                lost += len(wanted)
                continue
            texts = await self._texts(live, wanted)
            for identity, versions in wanted.items():
                held = texts.get(identity, DELETED)
                vector = await self._vector(live, identity, versions | {held})
                if held not in versions or vector not in versions:
                    lost += 1
                    last = [one.version for one in self.ledger.writes.get(identity, ())][-4:]
                    self.broken.append(
                        f"{at}: {live} {identity}: lexical {held}, dense {vector}, may be {sorted(versions)}, "
                        f"written {last}"
                    )
                elif held != vector:
                    differing += 1
                    self.broken.append(f"{at}: {live} {identity}: lexical {held}, dense {vector}")
        self.checks.append((self.killed.total(), acknowledged, len(shared) + len(loaded), lost, differing))

    async def _live(self, collection: str) -> str | None:
        view = await wire.ask(self.stack.port("gateway"), "GET", f"/v1/collections/{collection}")
        if view.status == 200:
            live = json.loads(view.body)["live"]
            return str(live) if live else None
        return None

    async def _texts(self, live: str, wanted: dict[str, set[int]]) -> dict[str, int]:
        """Versions by id as the lexical service has them; -1 for a text that no version of the id has."""
        path = f"/v1/collections/{live}/documents/get"
        answer = await wire.ask(self.stack.port("lexical"), "POST", path, {"ids": list(wanted)})
        assert answer.status == 200, answer.body
        found = {}
        for one in json.loads(answer.body)["documents"]:
            version = int(one["title"].removeprefix("v"))
            whole = Document.model_validate(document(one["id"], version)).content_hash
            found[one["id"]] = version if Document.model_validate(one).content_hash == whole else -1
        return found

    async def _vector(self, live: str, identity: str, versions: set[int]) -> int:
        """The version whose vector the dense service has; 0: none of the id, -1: of no version asked for."""
        own = {"all": [{"field": "own", "op": "eq", "value": identity}]}
        found = DELETED
        for version in sorted(versions - {DELETED, -1}, reverse=True) or [1]:
            asked = {"query": passage(identity, version), "top": 1, "exact": True, "filter": own}
            answer = await wire.ask(self.stack.port("dense"), "POST", f"/v1/collections/{live}/search", asked)
            assert answer.status == 200, answer.body
            for hit in json.loads(answer.body)["hits"]:
                if hit["score"] > 0.9999:
                    return version
                found = -1
        return found


async def run(seed: int, size: int = 50, root: Path = ROOT) -> Outcome:
    """Kills each of the three `size` times."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        directory = Path(name)
        async with started(directory, root) as processes:
            stack = Loaded(processes, directory)
            begun = await wire.ask(
                stack.port("gateway"), "PUT", f"/v1/collections/{SHARED}", {"metadata": {"own": "keyword"}}
            )
            assert begun.status == 200, begun.body
            loader = Loader(directory, processes["gateway"].url, root)
            kills = Kills(stack, loader, rng, seed)
            kills.ledger.acknowledge(kills.ledger.begin(["first"], delete=True))
            report = await wire.ask(
                stack.port("gateway"), "POST", f"/v1/collections/{SHARED}/documents", {"documents": [document("x", 1)]}
            )
            assert report.status == 200, report.body
            published = await wire.ask(stack.port("gateway"), "POST", f"/v1/collections/{SHARED}/publish")
            assert published.status == 200, published.body
            try:
                left = size
                while left:
                    share = min(CALM_AFTER, left)
                    victims = [victim for victim in ("loader", *STORING) for _ in range(share)]
                    rng.shuffle(victims)
                    await kills.stretch(victims)
                    left -= share
            finally:
                loader.kill()
            return _outcome(seed, kills)


def _outcome(seed: int, kills: Kills) -> Outcome:
    lost = sum(check[3] for check in kills.checks)
    differing = sum(check[4] for check in kills.checks)
    stuck = [line for line in kills.broken if "writers got" in line or "loader ended" in line]
    acknowledged = sum(check[1] for check in kills.checks)
    killed = ", ".join(f"{victim} {count}" for victim, count in sorted(kills.killed.items()))
    return Outcome(
        name="kills",
        says=f"{SAYS} Killed: {killed}. {acknowledged} documents were acknowledged to the writers; meanwhile they were "
        f"refused or unanswered: {dict(kills.refusals)}.",
        seed=seed,
        columns=("kills so far", "acknowledged since", "ids compared", "lost or wrong", "differing"),
        rows=tuple(tuple(map(str, check)) for check in kills.checks),
        bars=(
            Bar("every acknowledged document is in both services", f"{lost} lost or wrong", not lost),
            Bar("texts and vectors are of the same version", f"{differing} differ", not differing),
            Bar("writers and loader go on by themselves", f"{len(stuck)} did not", not stuck),
        ),
        broken=tuple(kills.broken),
    )
