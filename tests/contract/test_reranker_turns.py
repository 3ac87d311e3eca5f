"""Clients of the re-ranker take turns by what they ask for, and nobody chooses whose turn he takes."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import httpx
from fastapi import APIRouter, FastAPI

from services.chassis.app import create_app
from services.chassis.deadlines import Deadline
from services.chassis.instruments import Instruments
from services.chassis.probes import Readiness
from services.inference.passages import Split
from services.reranker.dialects.cohere import cohere_v2_router
from services.reranker.routes import score_router
from services.reranker.scorer_overlap import OverlapScorer
from services.reranker.settings import RerankerSettings

SCORE, RERANK = "/v1/score", "/v2/rerank"


class HeldScorer(OverlapScorer):
    """Begins a request, which its query names, and scores it once it may go on."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.begins = asyncio.Semaphore(0)
        self.go = asyncio.Event()

    async def score(
        self, query: str, passages: Sequence[str], deadline: Deadline, split: Split | None = None
    ) -> tuple[float, ...]:
        self.began.append(query)
        self.begins.release()
        await self.go.wait()
        return (0.0,) * len(passages)


def app_of(scorer: HeldScorer) -> FastAPI:
    @asynccontextmanager
    async def opened() -> AsyncIterator[tuple[Sequence[APIRouter], Readiness]]:
        async def readiness() -> tuple[()]:
            return ()

        yield (score_router(scorer), cohere_v2_router(scorer)), readiness

    return create_app("reranker", RerankerSettings(max_in_flight=1), Instruments(), opened)


async def asked(app: FastAPI, path: str, name: str, passages: int, address: str, client: str) -> None:
    transport = httpx.ASGITransport(app=app, client=(address, 1))
    body: dict[str, object] = {"query": name}
    body |= {"passages": ["a"] * passages} if path == SCORE else {"documents": ["a"] * passages, "model": "any"}
    async with httpx.AsyncClient(transport=transport, base_url="http://reranker") as sender:
        assert (await sender.post(path, json=body, headers={"x-client": client})).status_code == 200


async def began(*requests: tuple[str, str, int, str, str]) -> list[str]:
    """Returns the order in which requests begin that come one after the other while one is in work."""
    scorer = HeldScorer()
    app = app_of(scorer)
    async with app.router.lifespan_context(app), asyncio.TaskGroup() as tasks:
        for place, request in enumerate(requests):
            tasks.create_task(asked(app, *request))
            if not place:
                await scorer.begins.acquire()
            while app.state.lanes["work"]._turns.waiting + len(scorer.began) <= place:  # noqa: ASYNC110  # until it is there
                await asyncio.sleep(0)
        scorer.go.set()
    return scorer.began


async def test_clients_that_the_gateway_names_take_turns_by_the_passages_that_they_had() -> None:
    many = [(SCORE, f"many{number}", 80, "127.0.0.1", "many") for number in range(3)]
    few = [(SCORE, f"few{number}", 20, "127.0.0.1", "few") for number in range(5)]
    order = await began(*many, *few)
    assert order == ["many0", "few0", "few1", "few2", "few3", "many1", "few4", "many2"]


async def test_a_stranger_who_calls_himself_otherwise_each_time_is_still_one() -> None:
    many = [(RERANK, f"many{number}", 50, "192.0.2.1", f"name{number}") for number in range(4)]
    order = await began(*many, (RERANK, "other", 50, "192.0.2.2", "name0"))
    assert order.index("other") <= 2


async def test_few_passages_do_not_wait_for_a_thousand() -> None:
    scorer = HeldScorer()
    app = app_of(scorer)
    async with app.router.lifespan_context(app), asyncio.TaskGroup() as tasks:
        for name, passages in (("thousand", 1_000), ("few", 10)):
            tasks.create_task(asked(app, SCORE, name, passages, "127.0.0.1", "one"))
            async with asyncio.timeout(10):
                await scorer.begins.acquire()
        scorer.go.set()
    assert scorer.began == ["thousand", "few"]
