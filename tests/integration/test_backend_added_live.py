"""Backends are added to a live collection under searches and writes, and while they are killed; real processes."""

import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from tests.soak.stack import WORDS
from tests.support.processes import Process, started
from tests.support.times import repeated_when_late, timed

pytestmark = [
    pytest.mark.integration,
    pytest.mark.alone,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(300),
]

SEED = 20_261_126
DOCUMENTS, TOPICS, OF_A_TOPIC = 1_500, 10, 5
SEARCHES_EVERY_S = 0.1
MOST_S = 60.0
ADDED = ("late_interaction", "sparse")


def documents() -> list[dict[str, object]]:
    """Returns documents of random words. Each topic is a word of a few of them, in each more often than in the next,
    so that writes of other documents do not change its order."""
    rng = random.Random(SEED)
    made: list[dict[str, object]] = []
    for number in range(DOCUMENTS):
        topic, place = number % TOPICS, number // TOPICS
        words = [f"topic{topic}"] * (OF_A_TOPIC - place) if place < OF_A_TOPIC else []
        made.append({"id": f"d{number:04}", "text": " ".join(words + rng.choices(WORDS, k=20 - len(words)))})
    return made


@dataclass
class LiveCollection:
    """One collection of a running stack, and the answers to its searches."""

    processes: Mapping[str, Process]
    logs: Path
    client: httpx.AsyncClient
    name: str
    answers: list[tuple[int, int, tuple[str, ...]]] = field(default_factory=list)  # topic, status, ids

    async def post(self, path: str, **body: object) -> httpx.Response:
        return await self.client.post(f"/v1/collections/{self.name}{path}", json=body)

    async def put(self, **body: object) -> dict[str, object]:
        answer = await self.client.put(f"/v1/collections/{self.name}", json=body)
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert isinstance(found, dict)
        return found

    async def load(self) -> None:
        """Publishes all documents on the document store alone."""
        await self.put(backends=["lexical"], build="first")
        everything = documents()
        for start in range(0, DOCUMENTS, 250):
            sent = await self.post("/documents", documents=everything[start : start + 250], build="first")
            assert sent.json()["complete"], sent.text
        assert (await self.post("/publish", build="first", expected_documents=DOCUMENTS)).status_code == 200

    async def search(self, topic: int, pipeline: str = "bm25") -> None:
        answer = await self.post("/search", query=f"topic{topic}", pipeline=pipeline, top=OF_A_TOPIC)
        hits = tuple(hit["id"] for hit in answer.json().get("hits", ()))
        self.answers.append((topic, answer.status_code, hits))

    @asynccontextmanager
    async def searches(self) -> AsyncIterator[None]:
        """Sends ten searches a second until the block ends, each when it is due; waits for their answers."""

        async def send() -> None:
            started_at = time.monotonic()
            async with asyncio.TaskGroup() as sent:
                for number in itertools.count():
                    await asyncio.sleep(max(0.0, started_at + number * SEARCHES_EVERY_S - time.monotonic()))
                    if done.is_set() and number >= 10:  # a fast machine adds within a second
                        return
                    sent.create_task(self.search(number % TOPICS))

        done = asyncio.Event()
        sending = asyncio.create_task(send())
        try:
            yield
        finally:
            done.set()
            await sending

    async def adding(self) -> dict[str, dict[str, object]]:
        """Returns what is being added, by backend."""
        view = (await self.client.get(f"/v1/collections/{self.name}")).json()
        return {one["backend"]: one for one in view.get("adding", ())}

    async def until(self, reached: Callable[[dict[str, dict[str, object]]], bool]) -> dict[str, dict[str, object]]:
        """Waits until this is true of what is being added."""
        ends_at = time.monotonic() + MOST_S
        while not reached(adding := await self.adding()):
            assert time.monotonic() < ends_at, adding
            await asyncio.sleep(0.05)
        return adding

    async def written(self, path: str, **body: object) -> None:
        """Sends a write until every service has it."""
        ends_at = time.monotonic() + MOST_S
        while not (sent := await self.post(path, **body)).is_success or not sent.json()["complete"]:
            assert time.monotonic() < ends_at, sent.text
            await asyncio.sleep(0.2)

    async def digests(self) -> dict[str, str]:
        """Returns the digest of what each service holds of the live generation."""
        found = {}
        for name in ("lexical", *ADDED):
            async with self.processes[name].client(30.0) as client:
                answer = await client.post(f"/v1/collections/{self.name}@1/finish", json={})
                found[name] = answer.json()["digest"]
        return found

    async def first(self, query: str, backend: str) -> str:
        """Returns the first hit of a search in one backend."""
        pipeline = {"name": "one", "stages": [{"kind": "retrieve", "backend": backend}]}
        answer = await self.post("/search", query=query, pipeline=pipeline)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["hits"][0]["id"])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Path, dict[str, Process]]]:
    directory = tmp_path_factory.mktemp("stack")
    async with started(directory, families=("lexical", *ADDED)) as processes:
        yield directory, processes


@asynccontextmanager
async def loaded(stack: tuple[Path, dict[str, Process]]) -> AsyncIterator[LiveCollection]:
    """Yields a new collection with all documents."""
    directory, processes = stack
    async with processes["gateway"].client(30.0) as client:
        live = LiveCollection(processes, directory, client, f"c-{time.monotonic_ns()}")
        await live.load()
        yield live


def expected(topic: int) -> tuple[str, ...]:
    return tuple(f"d{topic + TOPICS * place:04}" for place in range(OF_A_TOPIC))


async def check(collection: LiveCollection) -> None:
    """Checks every search that was sent, and that the backends have the documents, the write and the deletion."""
    assert len(collection.answers) >= 10
    assert [one for one in collection.answers if one[1] == 200 and one[2] != expected(one[0])] == []
    with timed():  # a service that gets no processor for a second counts as unreachable
        assert [one for one in collection.answers if one[1] != 200] == []
    assert len(set((await collection.digests()).values())) == 1
    for backend in ADDED:
        assert await collection.first("topic3", backend) in expected(3)
        assert await collection.first("written meanwhile", backend) == "new"
    report = (await collection.post("/documents/delete", ids=["x"])).json()
    assert {one["backend"] for one in report["services"]} == {"lexical", *ADDED}
    for pipeline in ("colbert", "splade", "bm25-colbert"):
        answer = await collection.post("/search", query="topic3", pipeline=pipeline)
        assert (answer.status_code, answer.json()["degraded"]) == (200, [])


@repeated_when_late
async def test_ten_searches_a_second_all_answer_while_two_backends_are_added(
    stack: tuple[Path, dict[str, Process]],
) -> None:
    async with loaded(stack) as collection:
        await add_under_searches(collection)
        await check(collection)


async def add_under_searches(collection: LiveCollection) -> None:
    async with collection.searches():
        begun = await collection.put(backends=ADDED)
        assert begun["generation"] == f"{collection.name}@1"
        await collection.until(lambda adding: all(int(str(adding[name]["documents"])) > 0 for name in ADDED))
        await collection.written("/documents", documents=[{"id": "new", "text": "written meanwhile"}])
        await collection.written("/documents/delete", ids=["d0060", "d1499"])
        assert set(await collection.adding()) == set(ADDED)
        await collection.until(lambda adding: not adding)


@repeated_when_late
async def test_a_backend_that_is_killed_while_it_is_filled_is_filled_when_it_is_back(
    stack: tuple[Path, dict[str, Process]],
) -> None:
    async with loaded(stack) as collection:
        await add_with_a_kill(collection)
        await check(collection)


async def add_with_a_kill(collection: LiveCollection) -> None:
    async with collection.searches():
        await collection.put(backends=ADDED)
        await collection.until(lambda adding: int(str(adding["late_interaction"]["documents"])) > 200)
        process = collection.processes["late_interaction"]
        process.kill()
        sent = (await collection.post("/documents", documents=[{"id": "new", "text": "written meanwhile"}])).json()
        assert [one["backend"] for one in sent["services"] if one["status"] == "failed"] == ["late_interaction"]
        process.start(collection.logs / "late_interaction.log")
        await process.ready()
        await collection.written("/documents", documents=[{"id": "new", "text": "written meanwhile"}])
        await collection.written("/documents/delete", ids=["d0060", "d1499"])
        await collection.until(lambda adding: not adding)
