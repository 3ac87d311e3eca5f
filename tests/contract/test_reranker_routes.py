"""The re-ranker over HTTP."""

import httpx
import pytest

from services.reranker.app import build_app
from services.reranker.settings import Settings


@pytest.fixture
async def client():
    app = build_app(Settings(scorer="overlap"))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://reranker") as client,
    ):
        yield client


async def test_scores_come_in_the_order_sent_with_the_model_and_its_weight(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/score", json={"query": "red bicycle", "passages": ["a red bicycle", "a car", ""]})
    assert answer.json() == {"model": "overlap@000000000000", "weight": 0.5, "scores": [1.0, 0.0, 0.0]}
    assert "score;dur=" in answer.headers["server-timing"]


@pytest.mark.parametrize(
    "body",
    [
        {"query": "a", "passages": []},
        {"query": "a", "passages": ["b"] * 1001},
        {"query": "", "passages": ["b"]},
        {"query": "a\u0000", "passages": ["b"]},
        {"query": "a", "passages": [1]},
        {"query": "a"},
    ],
)
async def test_what_cannot_be_scored_is_a_422(client: httpx.AsyncClient, body: dict[str, object]) -> None:
    assert (await client.post("/v1/score", json=body)).status_code == 422


async def test_it_is_ready_once_its_model_is_open(client: httpx.AsyncClient) -> None:
    assert (await client.get("/readyz")).json()["checks"] == [
        {"name": "model", "ok": True, "detail": "overlap@000000000000"}
    ]
