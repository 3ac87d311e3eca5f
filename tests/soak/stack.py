"""Starts a stack and loads a collection."""

import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from retrieval_client import AsyncClient
from services.contracts.collections import FieldKind
from tests.soak import wire
from tests.soak.disks import data_directory
from tests.support import secured
from tests.support.processes import FAMILIES, STORING, Process, started

COLLECTION = "demo"
DOCUMENTS = 400
VOCABULARY = (
    "boil water kettle lamp light warm glass teapot loose tea office chair turns quickly small brass hinge door "
    "garden path gravel wheel spoke chain brake cable saddle rim tube patch glue wool scarf winter coat button thread"
)
WORDS = VOCABULARY.split()
METADATA: Mapping[str, FieldKind] = {"year": "number", "kind": "keyword"}


def text(rng: random.Random, words: int) -> str:
    """Returns a text of random words of a small vocabulary."""
    return " ".join(rng.choice(WORDS) for _ in range(words))


def documents(rng: random.Random, count: int) -> list[dict[str, object]]:
    """Returns documents `d000…` with titles, texts and metadata."""
    return [
        {
            "id": f"d{number:03}",
            "title": text(rng, 4),
            "text": text(rng, 40),
            "metadata": {"year": 1990 + number % 30, "kind": rng.choice(["kitchen", "office", "garden"])},
        }
        for number in range(count)
    ]


@dataclass
class LoadedStack:
    """Processes by name, and the directory of their logs and data."""

    processes: dict[str, Process]
    directory: Path

    def port(self, name: str) -> int:
        return self.processes[name].port

    def log(self, name: str) -> Path:
        return self.directory / f"{name}.log"


async def load(
    gateway: int,
    collection: str,
    batch: Sequence[dict[str, object]],
    backends: Sequence[str] = (),
    metadata: Mapping[str, FieldKind] = METADATA,
) -> None:
    """Begins a collection, on these backends or the default ones, sends the documents and publishes."""
    mode = secured.mode()
    async with AsyncClient(
        f"{secured.scheme()}://127.0.0.1:{gateway}",
        key=None if mode is None else mode.key,
        ca_file=secured.authority_of(gateway),
    ) as client:
        build = (await client.begin(collection, metadata=metadata, backends=backends or None)).build
        await client.load(collection, batch, build=build)
        await client.publish(collection, build=build)


@asynccontextmanager
async def loaded_stack(
    seed: int,
    evaluator: bool = False,
    small_disks: bool = False,
    models: bool = False,
    corpus: Sequence[dict[str, object]] | None = None,
    families: Sequence[str] = FAMILIES,
    lexical: Mapping[str, str] | None = None,
) -> AsyncIterator[LoadedStack]:
    """Yields the stack with the collection `demo`, in a temporary directory.

    The collection holds `corpus`, or documents of random words, and lives on all of the `families` that store.
    `models`, `lexical`: as those of tests/support/processes.py.
    """
    storing = [family for family in STORING if family in families]
    with data_directory(storing if small_disks else ()) as directory:
        async with started(directory, models=models, families=families, lexical=lexical) as processes:
            if evaluator:
                environment = {"EVALUATOR_RUNS": f"{directory}/runs", "GATEWAY_URL": processes["gateway"].url}
                service = Process("evaluator", environment, arguments=("serve",))
                processes["evaluator"] = service
                service.start(directory / "evaluator.log")
                await service.ready()
            batch = documents(random.Random(seed), DOCUMENTS) if corpus is None else corpus
            try:
                await load(processes["gateway"].port, COLLECTION, batch, () if families == FAMILIES else storing)
                yield LoadedStack(processes, directory)
            finally:
                if lexical is not None:  # the directory does not hold what it stores
                    await wire.ask(processes["gateway"].port, "DELETE", f"/v1/collections/{COLLECTION}")
