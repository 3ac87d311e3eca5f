"""Writes while services are killed: two writers, two rebuilders, and the evaluator's loader."""

import asyncio
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from services.contracts.collections import FieldKind
from tests.soak import wire
from tests.soak.acknowledged import Ledger, document
from tests.support.processes import ROOT, STORING

SHARED = "shared"
LOADED = "loaded"
REBUILT = "rebuilt"
OWN_IDS, COMMON_IDS, REBUILT_IDS, CORPUS = 60, 40, 40, 400
PIPELINES = "hybrid,splade,colbert"  # the loader's: a collection lives on what they need
METADATA: Mapping[str, FieldKind] = {"own": "keyword"}
DECLARED = {"metadata": METADATA, "backends": list(STORING)}


class Caller:
    """Calls one gateway for one collection and counts refusals."""

    def __init__(self, port: int, collection: str) -> None:
        self._port = port
        self._at = f"/v1/collections/{collection}"
        self.refusals: Counter[str] = Counter()

    async def ask(self, method: str, path: str, body: object) -> httpx.Response | None:
        """Returns the answer, or None."""
        call = f"{method} {path.rpartition('/')[2]}".strip()
        try:
            answer = await wire.ask(self._port, method, self._at + path, body, {"x-deadline-ms": "10000"}, 15)
        except (httpx.TransportError, TimeoutError) as error:
            self.refusals[f"{call} {type(error).__name__}"] += 1
            return None
        if answer.status_code != 200:
            self.refusals[f"{call} {answer.status_code}"] += 1
        return answer

    async def until_complete(self, path: str, body: object, rng: random.Random) -> None:
        """Sends a batch or a deletion until every service has taken all of it."""
        while True:
            answer = await self.ask("POST", path, body)
            if answer is not None and answer.status_code == 200 and answer.json()["complete"]:
                return
            await asyncio.sleep(rng.uniform(0.02, 0.2))


@dataclass
class Writer:
    """One of two writers of the collection `shared`; works until told to stop."""

    name: str
    caller: Caller
    ledger: Ledger
    rng: random.Random
    resting: asyncio.Event
    acknowledged: int = 0

    async def work(self) -> None:
        """Sends batches, deletions and publishings until `resting` is set; completes the last batch."""
        ids = [f"{self.name}-{number}" for number in range(OWN_IDS)] + [f"c-{number}" for number in range(COMMON_IDS)]
        while not self.resting.is_set():
            chosen = self.rng.sample(ids, self.rng.randrange(1, 30))
            match self.rng.randrange(10):
                case 0:
                    await self._write([identity for identity in chosen if identity[0] != "c"], delete=True)
                case 1:
                    await self.caller.ask("PUT", "", DECLARED)
                    await self.caller.ask("POST", "/publish", None)
                case _:
                    await self._write(chosen, delete=False)

    async def duel(self) -> None:
        """Writes all common ids four times at once: with the other writer, eight versions of each race."""
        ids = [f"c-{number}" for number in range(COMMON_IDS)]
        await asyncio.gather(*(self._write(ids, delete=False) for _ in range(4)))

    async def _write(self, ids: list[str], *, delete: bool) -> None:
        if not ids:
            return
        begun = self.ledger.begin(ids, delete=delete)
        if delete:
            await self.caller.until_complete("/documents/delete", {"ids": ids}, self.rng)
        else:
            batch = [document(identity, write.version) for identity, write in begun.items()]
            await self.caller.until_complete("/documents", {"documents": batch}, self.rng)
        self.ledger.acknowledge(begun)
        self.acknowledged += len(ids)


@dataclass
class Rebuilder:
    """One of two rebuilders of the collection `rebuilt` from the same ids; also writes single documents."""

    name: str
    caller: Caller
    rng: random.Random
    resting: asyncio.Event
    builds: int = 0
    acknowledged: int = 0
    lacking: list[str] = field(default_factory=list)

    async def work(self) -> None:
        """Makes whole builds in batches of five, publishing a single document in between, until `resting` is set."""
        while not self.resting.is_set():
            if self.rng.random() < 0.5:
                await self._one_document()
            else:
                await self.build()
            await self._look()

    async def _look(self) -> None:
        """Checks that no incomplete build replaces a completely published one: searches would miss documents."""
        ids = [rebuilt(number) for number in range(REBUILT_IDS)]
        answer = await self.caller.ask("POST", "/documents/get", {"ids": ids})
        if answer is not None and answer.status_code == 200:
            missing = answer.json()["missing"]
            if missing:
                self.lacking.append(f"{len(missing)} of {REBUILT_IDS} documents of the live generation were missing")

    async def _one_document(self) -> None:
        await self.caller.ask("PUT", "", DECLARED)
        batch = [document(rebuilt(self.rng.randrange(REBUILT_IDS)), self.rng.randrange(1, 2**31))]
        if await self._sent({"documents": batch}):
            await self.caller.ask("POST", "/publish", None)

    async def build(self) -> int | None:
        """Builds and publishes; returns the acknowledged version, or None when another build superseded it."""
        self.builds += 1
        token: dict[str, object] = {"build": f"{self.name}-{self.builds}"}
        version = self.rng.randrange(1, 2**31)
        begun = await self.caller.ask("PUT", "", {**DECLARED, **token, "new_generation": True})
        if begun is None or begun.status_code != 200:
            return None
        for start in range(0, REBUILT_IDS, 5):
            batch = [document(rebuilt(number), version) for number in range(start, start + 5)]
            if not await self._sent({**token, "documents": batch}):
                return None
        if not await self._through("/publish", {**token, "expected_documents": REBUILT_IDS}, "generation"):
            return None
        self.acknowledged += 1
        return version

    async def _sent(self, body: object) -> bool:
        return await self._through("/documents", body, "complete")

    async def _through(self, path: str, body: object, sign: str) -> bool:
        """Calls until the field `sign` of the answer is set; returns False when another build superseded this one."""
        for _ in range(100):
            answer = await self.caller.ask("POST", path, body)
            if answer is not None and answer.status_code == 200 and answer.json()[sign]:
                return True
            if answer is not None and answer.status_code in (404, 409):
                return False
            await asyncio.sleep(self.rng.uniform(0.02, 0.2))
        return False


def rebuilt(number: int) -> str:
    """Returns an id of the collection `rebuilt`."""
    return f"r-{number}"


class Loader:
    """The evaluator's loader over a corpus whose texts are new with every round."""

    def __init__(self, directory: Path, gateway: str) -> None:
        self.round = 0
        self._directory = directory / "corpus"
        self._environment = {**os.environ, "GATEWAY_URL": gateway, "EVALUATOR_RUNS": f"{directory}/runs"}
        self._log = directory / "loader.log"
        self._running: subprocess.Popen[bytes] | None = None
        (self._directory / "qrels").mkdir(parents=True)
        (self._directory / "queries.jsonl").write_text('{"_id": "q", "text": "tea"}\n', encoding="utf-8")
        (self._directory / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\tl-0\t1\n", encoding="utf-8")

    def start(self) -> None:
        """Begins the next round."""
        self.round += 1
        with (self._directory / "corpus.jsonl").open("w", encoding="utf-8") as corpus:
            for number in range(CORPUS):
                loaded = document(f"l-{number}", self.round)
                corpus.write(json.dumps({"_id": loaded.pop("id"), **loaded}) + "\n")
        command = [sys.executable, "-m", "evaluator", "ingest", "--collection", LOADED, "--pipelines", PIPELINES]
        command += ["--dataset", str(self._directory)] + ["--rebuild"] * (self.round % 2)
        with self._log.open("ab") as log:
            self._running = subprocess.Popen(command, cwd=ROOT, env=self._environment, stdout=log, stderr=log)

    @property
    def ended(self) -> bool:
        return self._running is None or self._running.poll() is not None

    def kill(self) -> None:
        if self._running is not None:
            self._running.kill()
            self._running.wait()

    async def complete(self) -> int:
        """Waits for the end of an undisturbed round; returns its exit status."""
        self.start()
        assert self._running is not None
        return await asyncio.to_thread(self._running.wait, 120)

    def said(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")[-1_500:]
