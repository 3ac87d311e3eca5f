"""A live collection is built anew, for another model or backend, from its own documents, under searches and writes."""

import asyncio
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import httpx
import numpy as np
import pytest
from fastapi import FastAPI

from gateway.collections import document_pages
from services.chassis.deadlines import Deadline
from services.dense.encoder_hashing import HashingEncoder
from services.dense.settings import DenseSettings
from services.storage.representation import Dense, DenseVector
from services.vectorservice.compose import build_vector_app
from tests.support.real_stack import RealStack, real_stack

HALF = 128


class HalfEncoder(HashingEncoder):
    """Another model: the first half of the vectors of the other one."""

    representation = Dense(HALF)
    stamp: Mapping[str, str] = {**HashingEncoder.stamp, "model": "half", "dimension": str(HALF)}

    async def encode_query(self, text: str, deadline: Deadline) -> DenseVector:
        half: DenseVector = (await super().encode_query(text, deadline))[:HALF]
        return half

    async def encode_passages(self, texts: Sequence[str], deadline: Deadline) -> np.ndarray:
        return (await super().encode_passages(texts, deadline))[:, :HALF]


def half(settings: DenseSettings, clock: Callable[[], float]) -> FastAPI:
    return build_vector_app("dense", settings, HalfEncoder, clock=clock)


class CountingEncoder(HashingEncoder):
    """Keeps every passage that it has encoded."""

    encoded: list[str]

    async def encode_passages(self, texts: Sequence[str], deadline: Deadline) -> np.ndarray:
        self.encoded.extend(texts)
        return await super().encode_passages(texts, deadline)


def dense(backend: str) -> dict[str, object]:
    return {"name": "d", "stages": [{"kind": "retrieve", "backend": backend}]}


BM25 = dense("lexical")
HYBRID = {
    "name": "h",
    "stages": [
        {"kind": "fuse", "method": "rrf", "inputs": [
            {"kind": "retrieve", "backend": "lexical", "on_failure": "skip"},
            {"kind": "retrieve", "backend": "dense", "on_failure": "skip"},
        ]},
    ],
}  # fmt: skip
BUILD = {"build": "half"}
PUBLISH = "/v1/collections/c/publish"


class Searching:
    """Sends 20 searches a second, each by the next pipeline; counts their answers, and notes what is not whole."""

    def __init__(self, stack: RealStack, *pipelines: object) -> None:
        self._stack = stack
        self._pipelines = itertools.cycle(pipelines)
        self.sent, self.wrong, self.generations = 0, list[str](), set[str]()

    async def _one(self) -> None:
        answer = await self._stack.post("/search", query="word", pipeline=next(self._pipelines), top=5)
        self.sent += 1
        if answer.status_code != 200 or answer.json()["degraded"] or len(answer.json()["hits"]) < 5:
            self.wrong.append(answer.text)

    async def until(self, done: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            while not done.is_set():
                group.create_task(self._one())
                await asyncio.sleep(0.05)


async def published(stack: RealStack, build: str = "half") -> httpx.Response:
    """Publishes the filled build, asking again while it goes on."""
    while True:
        answer = await stack.post("/publish", build=build, fill=True)
        if answer.status_code != 202:
            return answer


async def test_under_searches_and_writes_a_further_backend_is_a_generation_that_encodes_nothing_else_again(
    tmp_path: Path,
) -> None:
    """The further backend has another model of the same family, so that pipelines of both are served throughout."""
    encoder = CountingEncoder()
    encoder.encoded = []

    def counting(settings: DenseSettings, clock: Callable[[], float]) -> FastAPI:
        return build_vector_app("dense", settings, lambda: encoder, clock=clock)

    builders = {"new": half, "dense": counting}
    async with real_stack(tmp_path, others={"new": "dense"}, builders=builders, refresh_s=0.05) as stack:
        await stack.load()
        assert len(encoder.encoded) == 40
        done, searching = asyncio.Event(), Searching(stack, BM25, dense("dense"), HYBRID)

        async def writing() -> None:
            for number in itertools.count():
                if done.is_set():
                    return
                changed = {"id": f"d{number % 20:02}", "text": f"word {number % 20}", "metadata": {"n": number}}
                assert (await stack.send([changed])).json()["complete"]
                assert (await stack.post("/documents/delete", ids=[f"d{20 + number % 10}"])).json()["complete"]
                await asyncio.sleep(0.02)

        async with asyncio.TaskGroup() as group:
            group.create_task(searching.until(done))
            group.create_task(writing())
            await asyncio.sleep(0.5)
            begun = (await stack.begin(backends=["new"])).json()
            assert (begun["generation"], begun["created"], begun["live"]) == ("c@2", True, "c@1")
            answer = await published(stack, begun["build"])
            await asyncio.sleep(0.5)
            done.set()
        assert (answer.status_code, answer.json()["generation"]) == (200, "c@2"), answer.text
        assert searching.wrong == []
        assert searching.sent >= 20
        assert len(encoder.encoded) == 40
        assert (await stack.states("new"))["c@2"]["stamp"] == HalfEncoder.stamp
        assert len((await stack.post("/search", query="word", pipeline=dense("new"), top=5)).json()["hits"]) == 5
        held = [(await stack.others["new"].post("/v1/collections/c@2/finish", json={})).json()["digest"]]
        assert {*held, *(await stack.digests("c@2")).values()} == set(held)
        again = (await stack.begin(backends=["new"])).json()
        assert (again["generation"], again["created"]) == ("c@2", False)


async def test_a_service_with_another_model_in_place_is_built_anew_while_other_pipelines_go_on(tmp_path: Path) -> None:
    async with real_stack(tmp_path, refresh_s=0.05) as stack:
        await stack.load()
    async with real_stack(tmp_path, builders={"dense": half}, refresh_s=0.05) as stack:
        assert (await stack.post("/search", query="word", pipeline=dense("dense"))).status_code == 409
        done, searching = asyncio.Event(), Searching(stack, BM25)
        async with asyncio.TaskGroup() as group:
            group.create_task(searching.until(done))
            assert (await stack.begin(**BUILD, new_generation=True)).status_code == 200
            answer = await published(stack)
            done.set()
        assert answer.json()["documents"] == 40
        assert searching.wrong == []
        assert len((await stack.post("/search", query="word", pipeline=dense("dense"))).json()["hits"]) == 10
        assert await stack.texts(["d07"]) == {"d07": "word 7"}


async def test_a_filling_is_shown_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    async with real_stack(tmp_path, refresh_s=0.05) as stack:
        await stack.load()
        await stack.begin(**BUILD, new_generation=True)
        stack.ways["dense"].hold = (b"POST /v1/collections/c@2/documents", asyncio.Event())
        waiting = asyncio.create_task(stack.post("/publish", **BUILD, fill=True))
        await asyncio.sleep(0.3)
        [shown] = (await stack.client.get("/v1/collections/c")).json()["publishing"]
        assert (shown["generation"], shown["phase"], shown["state"]) == ("c@2", "fill", "running")
        waiting.cancel()
    async with real_stack(tmp_path, refresh_s=0.05) as stack:
        assert (await published(stack)).json()["documents"] == 40
        assert await stack.live() == {"lexical": 40, "dense": 40}


async def test_what_is_filled_in_part_is_not_published_without_a_fill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_pages, "COPIED", 5)
    async with real_stack(tmp_path, refresh_s=0.05) as stack:
        await stack.load()
        await stack.begin(**BUILD, new_generation=True)
        stack.ways["lexical"].hold = (b'"d31"', asyncio.Event())  # the page that has it is never read
        soon = {"x-deadline-ms": "600"}
        filled = await stack.client.post(PUBLISH, json={**BUILD, "fill": True}, headers=soon)
        assert filled.status_code == 202
        other = await stack.client.post(PUBLISH, json=BUILD, headers=soon)
        assert (other.status_code, "with `fill` is under way" in other.text) == (409, True)
    async with real_stack(tmp_path, refresh_s=0.05) as stack:
        assert 0 < (await stack.states("dense"))["c@2"]["documents"] < 40
        assert (await stack.post("/publish", **BUILD)).status_code == 409
        assert (await published(stack)).json()["documents"] == 40


async def test_what_was_sent_to_a_build_or_deleted_from_it_stays_when_it_is_filled(tmp_path: Path) -> None:
    async with real_stack(tmp_path, refresh_s=0.05) as stack:
        await stack.load()
        await stack.begin(**BUILD, new_generation=True)
        mine: list[dict[str, object]] = [
            {"id": "d01", "text": "newer"},
            {"id": "d02", "text": "word"},
            {"id": "mine", "text": "word"},
        ]
        assert (await stack.send(mine, **BUILD)).json()["complete"]
        assert (await stack.post("/documents/delete", ids=["d02", "d03"], **BUILD)).json()["complete"]
        answer = await published(stack)
        assert (answer.status_code, answer.json()["documents"]) == (200, 39), answer.text
        held = await stack.texts(["d00", "d01", "d02", "d03", "mine"])
        assert held == {"d00": "word 0", "d01": "newer", "mine": "word"}


async def test_a_publish_of_a_filled_build_that_one_service_missed_goes_on_when_it_is_repeated(tmp_path: Path) -> None:
    async with real_stack(tmp_path, refresh_s=0.05) as stack:
        await stack.load()
        await stack.begin(**BUILD, new_generation=True)
        dense, missed = stack.ways["dense"].inner, list[bytes]()

        async def miss_one(request: httpx.Request) -> httpx.Response:
            if b"/publish" in request.url.raw_path and not missed:
                missed.append(request.content)
                return httpx.Response(500)
            return await dense.handle_async_request(request)

        stack.ways["dense"].inner = httpx.MockTransport(miss_one)
        assert (await published(stack)).status_code == 502
        assert (await published(stack)).json()["documents"] == 40
        assert await stack.live() == {"lexical": 40, "dense": 40}


async def test_a_document_that_found_no_room_is_copied_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_pages, "RETRY_S", 0.05)
    async with real_stack(tmp_path, refresh_s=0.05) as stack:
        await stack.load()
        await stack.begin(**BUILD, new_generation=True)
        dense, full = stack.ways["dense"].inner, ["d07"]

        async def without_room(request: httpx.Request) -> httpx.Response:
            if b"/documents" not in request.url.raw_path or not full:
                return await dense.handle_async_request(request)
            batch = json.loads(request.content)["documents"]
            taken = json.dumps({"documents": [one for one in batch if one["id"] not in full]}).encode()
            headers = {"content-type": "application/json"}
            answer = await dense.handle_async_request(
                httpx.Request(request.method, request.url, headers=headers, content=taken)
            )
            report = json.loads(await answer.aread())
            report["errors"] = [{"id": full.pop(), "reason": "no room", "retryable": True}]
            return httpx.Response(200, json=report)

        stack.ways["dense"].inner = httpx.MockTransport(without_room)
        assert (await published(stack)).json()["documents"] == 40


@pytest.mark.parametrize(("asked", "status"), [({"fill": True}, 422), ({"fill": True, "build": "half"}, 409)])
async def test_without_a_build_or_a_live_generation_there_is_nothing_to_fill(
    tmp_path: Path, asked: dict[str, object], status: int
) -> None:
    async with real_stack(tmp_path) as stack:
        await stack.begin(**BUILD)
        refused = await stack.post("/publish", **asked)
        assert refused.status_code == status
        assert "fill: n" in refused.text


async def test_a_build_on_a_further_backend_is_not_published_with_less_than_the_live_one_unless_that_is_expected(
    tmp_path: Path,
) -> None:
    async with real_stack(tmp_path, others={"new": "dense"}) as stack:
        await stack.load()
        await stack.begin(backends=["new"], **BUILD)
        assert "fill" in (await stack.post("/publish", **BUILD)).text
        assert (await stack.send([{"id": "d01", "text": "sent"}], **BUILD)).json()["complete"]
        refused = await stack.post("/publish", **BUILD)
        assert (refused.status_code, (await stack.client.get("/v1/collections/c")).json()["live"]) == (409, "c@1")
        assert all(word in refused.text for word in ("fill", "expected_documents", "has 1 document", "c@1 has 40"))
        assert (await stack.post("/publish", expected_documents=1, **BUILD)).json()["generation"] == "c@2"
