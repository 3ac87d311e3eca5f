"""Checks what callers of the gateway see when a service cannot open or write a generation. Real services on disk."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from services.storage.edge_files import RECORD
from tests.support.real_stack import RealStack, numbered, real_stack

DENSE = {"name": "dense", "stages": [{"kind": "retrieve", "backend": "dense"}]}
LEGS = [
    {"kind": "retrieve", "id": "bm25", "backend": "lexical", "on_failure": "skip"},
    {"kind": "retrieve", "id": "dense", "backend": "dense", "on_failure": "skip"},
]
HYBRID = {"name": "hybrid", "stages": [{"kind": "fuse", "id": "fuse", "method": "rrf", "inputs": LEGS}]}


@pytest.fixture
async def damaged(tmp_path: Path) -> AsyncIterator[RealStack]:
    """Loads `c`, damages the vectors of `c@1`, and restarts everything."""
    async with real_stack(tmp_path) as stack:
        await stack.load(numbered(3))
    (tmp_path / "dense" / "c@1" / RECORD).write_text("{ not json")
    async with real_stack(tmp_path, inline_pipelines=True) as stack:
        yield stack


def said(answer: httpx.Response) -> tuple[int, str]:
    body = answer.json()
    return answer.status_code, body["type"].removeprefix("urn:problem:")


async def test_the_list_names_what_a_backend_cannot_open(damaged: RealStack) -> None:
    views = (await damaged.client.get("/v1/collections")).json()["collections"]
    (dense,) = (one for one in views[0]["backends"] if one["backend"] == "dense")
    assert dense["generations"] == []
    assert dense["unusable"][0]["generation"] == "c@1"
    assert "collection.json cannot be read" in dense["unusable"][0]["reason"]


async def test_a_search_in_a_damaged_generation_says_what_to_do_and_others_continue(damaged: RealStack) -> None:
    for _ in range(10):  # no breaker opens for it
        answer = await damaged.post("/search", query="word", pipeline=DENSE)
        assert said(answer) == (409, "damaged-collection")
        assert "remove the generation and load it again. Waiting does not help." in answer.json()["detail"]
        assert "retry-after" not in answer.headers
    whole = await damaged.post("/search", query="word", pipeline="bm25")
    assert (whole.status_code, whole.json()["degraded"]) == (200, [])
    hybrid = (await damaged.post("/search", query="word", pipeline=HYBRID)).json()
    assert [one["stage"] for one in hybrid["degraded"]] == ["dense"]
    assert len(hybrid["hits"]) == 3


async def test_a_damaged_generation_can_be_removed_and_begun_again(damaged: RealStack) -> None:
    assert (await damaged.client.delete("/v1/collections/c")).status_code == 204
    assert (await damaged.client.get("/v1/collections")).json()["collections"] == []
    assert (await damaged.dense.get("/v1/collections")).json()["collections"] == []
    assert (await damaged.begin()).json()["generation"] == "c@1"


async def test_a_new_generation_takes_another_number_than_the_damaged_one(damaged: RealStack) -> None:
    assert (await damaged.begin(new_generation=True)).json()["generation"] == "c@2"


async def test_a_full_disk_is_a_507_for_writes_and_does_not_affect_searches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with real_stack(tmp_path) as stack:
        await stack.load(numbered(3))
    monkeypatch.setenv("LEXICAL_LEAST_FREE_MB", "1000000000")
    monkeypatch.setenv("DENSE_LEAST_FREE_MB", "1000000000")
    async with real_stack(tmp_path, inline_pipelines=True) as stack:
        for _ in range(10):  # no breaker opens for it
            answer = await stack.send(numbered(5))
            assert said(answer) == (507, "insufficient-storage")
            assert "searches go on" in answer.json()["detail"]
        assert said(await stack.begin(new_generation=True)) == (507, "insufficient-storage")
        hybrid = (await stack.post("/search", query="word", pipeline=HYBRID)).json()
        assert (hybrid["degraded"], len(hybrid["hits"])) == ([], 3)
        ready = await stack.lexical.get("/readyz")
        assert ready.status_code == 200
        assert "writes are refused" in json.dumps(ready.json())
