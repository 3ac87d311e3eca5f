"""A live collection is extended by a backend, from its own documents, under searches and writes; real services."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from evaluator.client.client import connected
from evaluator.steps.ingest import ingest
from evaluator.steps.prepared_run import load_dataset
from tests.support.real_stack import RealStack, real_stack
from tests.support.small_runs import planned

SPARSE = {"name": "s", "stages": [{"kind": "retrieve", "backend": "sparse"}]}
ALL = ["dense", "lexical", "sparse"]
OTHERS = {"sparse": "sparse"}


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[RealStack]:
    async with real_stack(tmp_path, others=OTHERS, refresh_s=0.05) as stack:
        await stack.load()
        yield stack


async def added(stack: RealStack) -> list[dict[str, object]]:
    """Waits until nothing is being added any more, or has failed. Returns what is left."""
    adding: list[dict[str, object]] = []
    for _ in range(300):
        adding = (await stack.client.get("/v1/collections/c")).json().get("adding", [])
        if not adding or adding[0]["problem"]:
            break
        await asyncio.sleep(0.05)
    return adding


async def digests(stack: RealStack, generation: str = "c@1") -> set[str]:
    return {*(await stack.digests(generation)).values(), str(await digest(stack, generation))}


async def digest(stack: RealStack, generation: str) -> object:
    return (await stack.others["sparse"].post(f"/v1/collections/{generation}/finish", json={})).json()["digest"]


async def test_a_backend_is_added_under_searches_and_writes_and_recorded_everywhere(
    stack: RealStack, tmp_path: Path
) -> None:
    done = asyncio.Event()
    statuses: set[int] = set()

    async def searching() -> None:
        while not done.is_set():
            statuses.add((await stack.post("/search", query="word", pipeline="bm25")).status_code)

    async def writing() -> None:
        for number in itertools.count():
            if done.is_set():
                return
            sent = await stack.send([{"id": f"d{number % 40:02}", "text": f"changed {number}"}])
            assert sent.json()["complete"]
            assert (await stack.post("/documents/delete", ids=[f"d{(number + 7) % 40:02}"])).json()["complete"]

    async with asyncio.TaskGroup() as group:
        group.create_task(searching())
        group.create_task(writing())
        begun = (await stack.begin(backends=ALL)).json()
        assert (begun["generation"], begun["created"], begun["live"]) == ("c@1", False, "c@1")
        assert [one["backend"] for one in begun["adding"]] == ["sparse"]
        assert await added(stack) == []
        done.set()
    assert statuses == {200}
    assert (await stack.post("/search", query="word", pipeline=SPARSE)).status_code == 200
    assert len(await digests(stack)) == 1
    for service in ALL:
        record = json.loads((tmp_path / service / "c@1" / "collection.json").read_text())
        assert record["declaration"]["backends"] == ALL
    report = (await stack.send([{"id": "x", "text": "later"}])).json()
    assert {one["backend"] for one in report["services"]} == set(ALL)
    assert (await stack.post("/publish")).status_code == 200
    again = (await stack.begin(backends=ALL)).json()
    assert (again["generation"], again.get("adding")) == ("c@1", None)


async def test_until_it_is_filled_the_collection_is_published_and_searched_without_it(stack: RealStack) -> None:
    way = stack.ways["sparse"]
    way.hold = (b"POST /v1/collections/c@1/documents", asyncio.Event())
    await stack.begin(backends=["sparse"])
    await asyncio.sleep(0.2)
    [shown] = (await stack.client.get("/v1/collections/c")).json()["adding"]
    assert shown == {"backend": "sparse", "documents": 0, "of": 40, "problem": None}
    assert (await stack.post("/publish", expected_documents=40)).status_code == 200
    refused = await stack.post("/search", query="word", pipeline=SPARSE)
    assert refused.status_code == 422
    assert f'"backends": {json.dumps(ALL)} adds it' in refused.json()["detail"]
    way.hold[1].set()
    assert await added(stack) == []
    assert await stack.live() == dict.fromkeys(ALL, 40)


@pytest.mark.parametrize("last", [b"/finish", b"/publish"])
async def test_after_a_crash_the_same_put_goes_on(tmp_path: Path, last: bytes) -> None:
    async with real_stack(tmp_path, others=OTHERS, refresh_s=0.05) as stack:
        await stack.load()
        stack.ways["sparse"].hold = (last, asyncio.Event())
        await stack.begin(backends=ALL)
        await asyncio.sleep(0.5)
    async with real_stack(tmp_path, others=OTHERS, refresh_s=0.05) as stack:
        assert (await stack.send([{"id": "d00", "text": "changed"}])).json()["complete"]
        assert (await stack.post("/documents/delete", ids=["d01"])).json()["complete"]
        [shown] = (await stack.begin(backends=ALL)).json()["adding"]
        assert (shown["documents"], shown["of"]) == (39, 39)
        assert await added(stack) == []
        assert await stack.live() == dict.fromkeys(ALL, 39)
        assert len(await digests(stack)) == 1


async def test_what_the_backend_has_too_much_is_told_and_the_next_put_fills_it_anew(stack: RealStack) -> None:
    way = stack.ways["sparse"]
    way.hold = (b"/finish", asyncio.Event())
    await stack.begin(backends=ALL)
    await asyncio.sleep(0.5)
    stray = {"documents": [{"id": "stray", "text": "of nobody"}]}
    assert (await stack.others["sparse"].post("/v1/collections/c@1/documents", json=stray)).is_success
    way.hold[1].set()
    [failed] = await added(stack)
    assert "is empty again" in str(failed["problem"])
    assert (await stack.post("/search", query="word", pipeline="bm25")).status_code == 200
    await stack.begin(backends=ALL)
    assert await added(stack) == []
    assert await stack.live() == dict.fromkeys(ALL, 40)


async def test_a_backend_that_is_away_is_named_and_searches_go_on(stack: RealStack) -> None:
    def refused(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    stack.ways["sparse"].inner = httpx.MockTransport(refused)
    gone = await stack.begin(backends=ALL)
    assert gone.status_code == 503
    assert "sparse" in gone.json()["detail"]
    assert (await stack.post("/search", query="word", pipeline="bm25")).status_code == 200


async def test_a_backend_that_answers_late_after_a_generation_was_begun_is_waited_for(stack: RealStack) -> None:
    class LateList(httpx.AsyncBaseTransport):
        """Answers the list of generations 1.5 s late, as a busy service does, from the first generation on."""

        def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
            self._inner = inner
            self._busy = False

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            self._busy = self._busy or request.method == "PUT"
            if self._busy and request.method == "GET":
                await asyncio.sleep(1.5)
            return await self._inner.handle_async_request(request)

    stack.ways["sparse"].inner = LateList(stack.ways["sparse"].inner)
    begun = await stack.begin(build="second", backends=ALL, new_generation=True)
    assert begun.status_code == 200, begun.text
    assert begun.json()["generation"] == "c@2"


async def test_the_loader_extends_a_collection_that_lacks_what_a_pipeline_needs(tmp_path: Path) -> None:
    async with real_stack(tmp_path, others=OTHERS, refresh_s=0.05) as stack:
        for pipelines, backends in (
            (["bm25"], {"lexical"}),
            ([SPARSE], {"lexical", "sparse"}),
            (["bm25"], {"lexical", "sparse"}),
        ):
            experiment = planned(tmp_path, collection="c", pipelines=pipelines)
            async with connected("http://stack", stack.into_gateway) as client:
                report = await ingest(client, experiment, load_dataset(experiment))
            assert (report.generation, report.backends.keys()) == ("c@1", backends)
            assert await stack.live() == dict.fromkeys(backends, 6)
