"""A collection lives on the backends that it names, and needs no other; over real services."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from evaluator.client.client import connected
from evaluator.steps.ingest import ingest
from evaluator.steps.prepared_run import load_dataset
from tests.support.real_stack import RealStack, numbered, real_stack
from tests.support.small_runs import planned

ALONE: dict[str, Any] = {"build": "alone", "backends": ["lexical"]}
SPARSE = {"name": "s", "stages": [{"kind": "retrieve", "backend": "sparse"}]}
DENSE = {"name": "d", "stages": [{"kind": "retrieve", "backend": "dense"}]}


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[RealStack]:
    async with real_stack(tmp_path, others={"sparse": "sparse"}, refresh_s=0.05, keep_previous_s=3_600) as stack:
        yield stack


async def load(stack: RealStack, count: int = 40, **begin: object) -> str:
    """Loads and publishes a generation. Returns its name."""
    build = {"build": begin["build"]}
    assert (await stack.begin(**begin)).status_code == 200
    assert (await stack.send(numbered(count), **build)).json()["complete"]
    published = await stack.post("/publish", **build, expected_documents=count)
    assert published.status_code == 200, published.text
    return str(published.json()["generation"])


def refused_connection(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused", request=request)


async def holding(stack: RealStack, generation: str) -> set[str]:
    return {name for name in ("lexical", "dense", "sparse") if generation in await stack.states(name)}


async def test_a_collection_is_on_the_backends_that_it_names_alone(stack: RealStack) -> None:
    assert await load(stack, **ALONE) == "c@1"
    assert await stack.live() == {"lexical": 40}
    for path, body in (
        ("/documents", {"documents": [{"id": "x", "text": "one more"}]}),
        ("/documents/delete", {"ids": ["x"]}),
    ):
        report = (await stack.post(path, **body)).json()
        assert (report["complete"], [one["backend"] for one in report["services"]]) == (True, ["lexical"])
    assert (await stack.begin(backends=["sparse"], build="other", new_generation=True)).json()["generation"] == "c@2"
    assert await holding(stack, "c@2") == {"lexical", "sparse"}  # the document store has every collection
    assert (await stack.client.delete("/v1/collections/c")).status_code == 204
    assert [await stack.states(name) for name in ("lexical", "dense", "sparse")] == [{}, {}, {}]


async def test_without_names_a_collection_is_on_lexical_and_dense_as_a_release_before_wrote_it(
    stack: RealStack, tmp_path: Path
) -> None:
    await load(stack, build="first")
    await load(stack, build="named", backends=["dense", "lexical"], new_generation=True)
    for generation in ("c@1", "c@2"):
        assert await holding(stack, generation) == {"lexical", "dense"}
        for service in ("lexical", "dense"):
            record = json.loads((tmp_path / service / generation / "collection.json").read_text())
            assert record["declaration"].keys() == {"presets", "metadata"}
            assert "backends" not in (await stack.states(service))[generation]["declaration"]


@pytest.mark.parametrize("asked", [{}, {"backends": ["lexical"]}, {"backends": ["dense"]}])
async def test_what_lives_on_enough_backends_is_continued(stack: RealStack, asked: dict[str, object]) -> None:
    await load(stack, build="first")
    begun = (await stack.begin(**asked)).json()
    assert (begun["generation"], begun["created"]) == ("c@1", False)
    alone = await load(stack, new_generation=True, **ALONE)
    assert (
        (await stack.begin()).json()["generation"]
        == (await stack.begin(backends=["lexical"])).json()["generation"]
        == alone
    )


async def test_a_backend_that_stores_nothing_is_refused_with_those_that_do(stack: RealStack) -> None:
    for name in ("bm25", "reranker"):
        refused = await stack.begin(backends=["lexical", name])
        assert refused.status_code == 422
        assert f"no backend '{name}'" in refused.json()["detail"]
        assert "there are: dense, lexical, sparse" in refused.json()["detail"]
    assert (await stack.begin(backends=[])).status_code == 422


async def test_a_pipeline_that_needs_another_backend_is_refused_with_what_to_do(stack: RealStack) -> None:
    await load(stack, **ALONE)
    skippable = {"kind": "retrieve", "backend": "dense", "on_failure": "skip"}
    hybrid = {
        "name": "h",
        "stages": [{"kind": "fuse", "inputs": [{"kind": "retrieve", "backend": "lexical"}, skippable]}],
    }
    for pipeline, names in (
        (DENSE, ["dense", "lexical"]),
        (hybrid, ["dense", "lexical"]),
        (SPARSE, ["lexical", "sparse"]),
    ):
        refused = await stack.post("/search", query="word", pipeline=pipeline)
        assert refused.status_code == 422
        told = f'PUT /v1/collections/c with "backends": {json.dumps(names)} begins a generation that does; then publish'
        assert told in refused.json()["detail"]
    assert (await stack.post("/search", query="word", pipeline="bm25")).status_code == 200


async def test_only_the_backends_of_the_collection_are_needed(stack: RealStack) -> None:
    for name in ("dense", "sparse"):
        stack.ways[name].inner = httpx.MockTransport(refused_connection)
    assert await load(stack, **ALONE) == "c@1"
    gone = await stack.begin(backends=["dense"], new_generation=True)
    assert gone.status_code == 503
    assert "dense" in gone.json()["detail"]
    assert "sparse" not in gone.json()["detail"]


async def test_generations_on_different_backends_are_published_gone_back_to_and_retired(tmp_path: Path) -> None:
    async with real_stack(tmp_path, others={"sparse": "sparse"}, refresh_s=0.05, keep_previous_s=2.0) as stack:
        await load(stack, build="first")
        await load(stack, build="second", backends=["sparse"], new_generation=True, count=41)
        assert await stack.live() == {"lexical": 41, "sparse": 41}
        assert (await stack.post("/search", query="word", pipeline=DENSE)).status_code == 422
        assert (await stack.post("/rollback")).json()["generation"] == "c@1"
        assert await stack.live() == {"lexical": 40, "dense": 40}
        assert (await stack.send([{"id": "x", "text": "later"}])).json()["complete"]
        forward = await stack.post("/publish", generation="c@2")
        assert forward.json()["generation"] == "c@2"
        assert (await stack.post("/search", query="word", pipeline=SPARSE)).status_code == 200
        for _ in range(100):
            await asyncio.sleep(0.2)
            if not await holding(stack, "c@1"):
                break
        assert (await holding(stack, "c@1"), await holding(stack, "c@2")) == (set(), {"lexical", "sparse"})


async def test_live_writes_reach_a_build_on_other_backends(stack: RealStack) -> None:
    await load(stack, **ALONE)
    wider = {"build": "wider"}
    assert (await stack.begin(**wider, backends=["dense"], new_generation=True)).json()["generation"] == "c@2"
    report = (await stack.send([{"id": "x", "text": "one more"}])).json()
    assert (report["complete"], [one["backend"] for one in report["services"]]) == (True, ["lexical", "dense"])
    assert (await stack.send(numbered(40), **wider)).json()["complete"]
    assert (await stack.post("/publish", **wider, expected_documents=41)).status_code == 200
    assert await stack.live() == {"lexical": 41, "dense": 41}


async def test_a_backend_that_answers_late_after_a_generation_was_begun_is_waited_for(stack: RealStack) -> None:
    class LateList(httpx.AsyncBaseTransport):
        """Answers the list of generations 1.2 s late, as a busy service does, from the first generation on."""

        def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
            self._inner = inner
            self._busy = False

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            self._busy = self._busy or request.method == "PUT"
            if self._busy and request.method == "GET":
                await asyncio.sleep(1.2)
            return await self._inner.handle_async_request(request)

    await load(stack, **ALONE)
    stack.ways["sparse"].inner = LateList(stack.ways["sparse"].inner)
    begun = await stack.begin(build="second", backends=["sparse"])
    assert (begun.status_code, begun.json()["generation"]) == (200, "c@2"), begun.text


async def test_the_loader_begins_a_generation_on_what_the_pipelines_use_beside_what_is_there(
    stack: RealStack, tmp_path: Path
) -> None:
    for pipelines, generation, backends in (
        (["bm25"], "c@1", {"lexical"}),
        ([DENSE], "c@2", {"lexical", "dense"}),
        ([SPARSE], "c@3", {"lexical", "dense", "sparse"}),
        (["bm25"], "c@3", {"lexical", "dense", "sparse"}),
    ):
        experiment = planned(tmp_path, collection="c", pipelines=pipelines)
        async with connected("http://stack", stack.into_gateway) as client:
            report = await ingest(client, experiment, load_dataset(experiment))
        assert (report.generation, report.backends.keys()) == (generation, backends)
        assert await stack.live() == dict.fromkeys(backends, 6)
        encoded = {name: load.encoded for name, load in report.backends.items() if load.encoded}
        assert encoded == ({"c@2": {"dense": 6}, "c@3": {"sparse": 6}}.get(generation, {}) if report.created else {})


async def test_two_backends_of_one_family_hold_one_collection_and_only_the_first_without_being_named(
    tmp_path: Path,
) -> None:
    async with real_stack(tmp_path, others={"dense_bge": "dense"}, refresh_s=0.05) as stack:
        await load(stack, build="first")
        assert await stack.live() == {"lexical": 40, "dense": 40}
        await load(stack, build="both", backends=["lexical", "dense", "dense_bge"], new_generation=True)
        assert await stack.live() == {"lexical": 40, "dense": 40, "dense_bge": 40}
        inline = [{"name": "d", "stages": [{"kind": "retrieve", "backend": name}]} for name in ("dense", "dense_bge")]
        first, second = [await stack.post("/search", query="number 7", pipeline=pipeline) for pipeline in inline]
        assert first.json()["hits"] == second.json()["hits"] != []
