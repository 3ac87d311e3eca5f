"""Expansions of documents over the wire: loaded, changed, read, copied to another backend; real services."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from services.contracts.documents import Document
from tests.support.real_stack import RealStack, real_stack

MODEL = "toy@0123456789ab"
DECLARED = {"presets": ["beir", "doc2query", "deepct"], "expansions": {"doc2query": MODEL, "deepct": MODEL}}
KETTLE = {
    "id": "kettle",
    "text": "It boils water.",
    "expansions": {
        "doc2query": {"model": MODEL, "queries": ["how to make tea"]},
        "deepct": {"model": MODEL, "words": "It|5 boils|11 water|14"},
    },
}
PAN = {
    "id": "pan",
    "text": "It fries eggs.",
    "expansions": {"doc2query": {"model": MODEL, "queries": []}, "deepct": {"model": MODEL, "words": "fries|10"}},
}


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[RealStack]:
    async with real_stack(tmp_path, others={"sparse": "sparse"}, refresh_s=0.05) as stack:
        await stack.load([KETTLE, PAN], **DECLARED)
        yield stack


async def encoded(stack: RealStack, *documents: dict[str, object]) -> int:
    report = (await stack.send(documents)).json()
    assert report["complete"], report
    return int({one["backend"]: one["report"] for one in report["services"]}["dense"]["encoded"])


async def found(stack: RealStack, query: str, preset: str) -> list[str]:
    pipeline = {"name": "p", "stages": [{"kind": "retrieve", "backend": "lexical", "preset": preset}]}
    answer = await stack.post("/search", query=query, pipeline=pipeline)
    assert answer.status_code == 200, answer.text
    return [hit["id"] for hit in answer.json()["hits"]]


async def test_a_search_finds_a_document_by_the_query_that_a_model_generated(stack: RealStack) -> None:
    assert await found(stack, "tea", "doc2query") == ["kettle"]
    assert await found(stack, "tea", "beir") == []
    assert await found(stack, "boiling", "deepct") == ["kettle"]
    assert await found(stack, "eggs", "deepct") == []


async def test_a_changed_expansion_is_indexed_and_encodes_nothing(stack: RealStack) -> None:
    changed = {**KETTLE["expansions"], "doc2query": {"model": MODEL, "queries": ["coffee"]}}  # type: ignore[dict-item]
    assert await encoded(stack, {**KETTLE, "expansions": changed}) == 0
    assert await found(stack, "coffee", "doc2query") == ["kettle"]
    assert len(set((await stack.digests("c@1")).values())) == 1


async def test_documents_are_read_with_their_expansions_and_copied_with_them(stack: RealStack) -> None:
    [read] = (await stack.post("/documents/get", ids=["kettle"])).json()["documents"]
    assert read["expansions"] == KETTLE["expansions"]
    begun = (await stack.begin(backends=["sparse"], **DECLARED)).json()
    assert (await stack.post("/publish", build=begun["build"], fill=True)).status_code == 200
    digest = (await stack.others["sparse"].post("/v1/collections/c@2/finish", json={})).json()["digest"]
    assert {*(await stack.digests("c@2")).values()} == {digest}


@pytest.mark.parametrize(
    ("expansions", "named"),
    [
        ({}, "doc2query or deepct"),
        ({"deepct": {"model": "toy", "words": ""}}, "model"),
        ({"deepct": {"model": MODEL, "words": "tea"}}, "chain|14"),
        ({"deepct": {"model": MODEL, "words": "tea|0"}}, "chain|14"),
        ({"deepct": {"model": MODEL, "words": "tea|1  pot|2"}}, "chain|14"),
        ({"deepct": {"model": MODEL, "words": "kettle|999999"}}, "2000000"),
        ({"doc2query": {"model": MODEL, "queries": ["a"] * 101}}, "100"),
    ],
)
async def test_faulty_expansions_are_refused(stack: RealStack, expansions: object, named: str) -> None:
    answer: httpx.Response = await stack.send([{**KETTLE, "expansions": expansions}])
    assert answer.status_code == 422
    assert "documents.0.expansions" in answer.text
    assert named in answer.text


async def test_a_preset_over_expansions_needs_their_model_declared(stack: RealStack) -> None:
    answer = await stack.begin(presets=["deepct"])
    assert answer.status_code == 422
    assert "expansions" in answer.json()["detail"]


def test_a_document_without_expansions_keeps_its_hash() -> None:
    # As computed before documents could have expansions.
    plain = Document(id="a", title="Kettle", text="It boils water.", metadata={"year": 2020})
    assert plain.content_hash == "eeec2e68d608a4bd168b3fc2b1487515cada5a32efd4dd23d2b86d0b12a84800"
    assert "expansions" not in plain.model_dump_json()
