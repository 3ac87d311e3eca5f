"""Checks answers of hybrid-rerank queries, and their time, while services (real processes) are killed or hang."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from tests.support.processes import Process, started
from tests.support.times import repeated_when_late, timed

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]

DEADLINE_S = 2.0
LATE_S = DEADLINE_S + 0.05
QUERIES = ("boil water", "warm light at night", "glass for tea", "a chair that turns", "the of and")
TOPICS = ("kettle boils water fast", "lamp with warm light", "teapot of glass for loose tea", "office chair that turns")
DOCUMENTS = [{"id": f"d{number:03}", "title": TOPICS[number % 4], "text": f"item {number}"} for number in range(40)]
# The stages flagged while a service is gone; without texts there is no re-ranking either.
FLAGGED = {"lexical": {"bm25", "rerank"}, "dense": {"dense"}, "reranker": {"rerank"}}


@dataclass
class Answered:
    """The outcome of one query: when it was sent, how long it took, and its answer."""

    left_at: float
    seconds: float
    status: int
    degraded: dict[str, str]


@dataclass
class Running:
    """A stack, and callers that query it continuously."""

    processes: dict[str, Process]
    client: httpx.AsyncClient
    logs: Path
    answers: list[Answered] = field(default_factory=list)

    async def ask(self, query: str) -> Answered:
        left_at = time.monotonic()
        answer = await self.client.post(
            "/v1/collections/demo/search",
            json={"query": query, "pipeline": "hybrid-rerank"},
            headers={"x-deadline-ms": str(int(DEADLINE_S * 1000))},
        )
        seconds = time.monotonic() - left_at
        degraded = {stage["stage"]: stage["reason"] for stage in answer.json().get("degraded", ())}
        answered = Answered(left_at, seconds, answer.status_code, degraded)
        self.answers.append(answered)
        return answered

    @asynccontextmanager
    async def queries(self) -> AsyncIterator[None]:
        """Runs four callers that send one query after the other until the block ends."""

        async def caller(first: int) -> None:
            number = first
            while True:
                await self.ask(QUERIES[number % len(QUERIES)])
                number += 1
                await asyncio.sleep(0.05)

        self.answers.clear()
        callers = [asyncio.create_task(caller(number)) for number in range(4)]
        try:
            yield
        finally:
            for task in callers:
                task.cancel()
            ended = await asyncio.gather(*callers, return_exceptions=True)
            assert all(isinstance(error, asyncio.CancelledError) for error in ended), ended

    async def full_quality_within(self, seconds: float, since: float) -> None:
        while True:
            answered = await self.ask(QUERIES[0])
            if answered.status == 200 and not answered.degraded:
                return
            with timed():
                assert time.monotonic() - since < seconds, answered


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    directory = tmp_path_factory.mktemp("stack")
    async with (
        started(directory) as processes,
        processes["gateway"].client(30.0) as client,
    ):
        load = {"build": "first-load"}
        assert (await client.put("/v1/collections/demo", json=load)).status_code == 200
        report = await client.post("/v1/collections/demo/documents", json={"documents": DOCUMENTS, **load})
        assert report.json()["complete"], report.text
        assert (await client.post("/v1/collections/demo/publish", json=load)).status_code == 200
        yield Running(processes, client, directory)


async def bring_back(running: Running, name: str, fault: signal.Signals) -> float:
    """Restores the service and returns the time of its return."""
    process = running.processes[name]
    if fault == signal.SIGSTOP:
        process.send(signal.SIGCONT)
    else:
        process.kill()
        process.start(running.logs / f"{name}.log")
        await process.ready()
    return time.monotonic()


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "hung"])
@pytest.mark.parametrize("name", ["lexical", "dense", "reranker"])
@repeated_when_late
async def test_answers_keep_coming_in_time_and_flagged_while_a_service_is_gone(
    running: Running, name: str, fault: signal.Signals
) -> None:
    async with running.queries():
        await asyncio.sleep(1.0)
        running.processes[name].send(fault)
        gone_at = time.monotonic()
        await asyncio.sleep(5.0)
        # From here on it may answer again, up to one poll of `ready` before this test knows.
        gone_until = time.monotonic()
        back_at = await bring_back(running, name, fault)
        await running.full_quality_within(5.0, back_at)
    assert {answered.status for answered in running.answers} == {200}
    with timed():
        assert max(answered.seconds for answered in running.answers) < LATE_S
    before = [answered for answered in running.answers if answered.left_at + answered.seconds < gone_at]
    meanwhile = [a for a in running.answers if a.left_at > gone_at and a.left_at + a.seconds < gone_until]
    assert before
    assert meanwhile
    assert all(not answered.degraded for answered in before)
    assert all(set(answered.degraded) == FLAGGED[name] for answered in meanwhile)
    # A service known to be gone costs no waiting: the last answers are fast however it ended.
    with timed():
        assert all(answered.seconds < 0.5 for answered in meanwhile[-5:])


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "hung"])
@repeated_when_late
async def test_without_any_retriever_every_answer_is_a_503_in_time(running: Running, fault: signal.Signals) -> None:
    for name in ("lexical", "dense"):
        running.processes[name].send(fault)
    answers = [await running.ask(query) for query in QUERIES]
    for name in ("lexical", "dense"):
        back_at = await bring_back(running, name, fault)
    await running.full_quality_within(5.0, back_at)
    assert {answered.status for answered in answers} == {503}
    with timed():
        assert max(answered.seconds for answered in answers) < LATE_S
