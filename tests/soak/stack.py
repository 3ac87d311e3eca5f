"""Starts a stack and loads a collection."""

import json
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.soak import wire
from tests.soak.disks import data_directory
from tests.support.processes import FAMILIES, STORING, Process, started

COLLECTION = "demo"
DOCUMENTS = 400
VOCABULARY = (
    "boil water kettle lamp light warm glass teapot loose tea office chair turns quickly small brass hinge door "
    "garden path gravel wheel spoke chain brake cable saddle rim tube patch glue wool scarf winter coat button thread"
)
WORDS = VOCABULARY.split()


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


async def load(gateway: int, collection: str, batch: Sequence[dict[str, object]], backends: Sequence[str] = ()) -> None:
    """Begins a collection, on these backends or the default ones, sends the documents and publishes."""
    path = f"/v1/collections/{collection}"
    declared: dict[str, object] = {"metadata": {"year": "number", "kind": "keyword"}}
    if backends:
        declared["backends"] = list(backends)
    begun = await wire.ask(gateway, "PUT", path, declared)
    assert begun.status == 200, begun.body
    for start in range(0, len(batch), 200):
        documents = {"documents": batch[start : start + 200], **build_of(begun)}
        report = await wire.ask(gateway, "POST", f"{path}/documents", documents)
        assert report.status == 200, report.body
        assert b'"complete":true' in report.body, report.body
    published = await wire.ask(gateway, "POST", f"{path}/publish", build_of(begun) or None)
    assert published.status == 200, published.body


def build_of(begun: wire.Reply) -> dict[str, object]:
    """Returns the build that documents and publish must name; empty where the live generation continues."""
    build = json.loads(begun.body)["build"]
    return {} if build is None else {"build": build}


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
    storing = [one for one in STORING if one in families]
    with data_directory(storing if small_disks else ()) as directory:
        async with started(directory, models=models, families=families, lexical=lexical) as processes:
            if evaluator:
                environment = {
                    "EVALUATOR_RUNS": f"{directory}/runs",
                    "GATEWAY_URL": processes["gateway"].url,
                }
                one = Process("evaluator", environment, arguments=("serve",))
                processes["evaluator"] = one
                one.start(directory / "evaluator.log")
                await one.ready()
            batch = documents(random.Random(seed), DOCUMENTS) if corpus is None else corpus
            try:
                await load(processes["gateway"].port, COLLECTION, batch, () if families == FAMILIES else storing)
                yield LoadedStack(processes, directory)
            finally:
                if lexical is not None:  # the directory does not hold what it stores
                    await wire.ask(processes["gateway"].port, "DELETE", f"/v1/collections/{COLLECTION}")
