"""Checks texts through the gateway: answers are bounded in bytes, and texts of any length can be re-ranked."""

import asyncio
from collections.abc import AsyncIterator, Collection

import pytest

from services.chassis.calls.sockets import CONNECTIONS
from services.contracts.documents import MOST_ANSWER_BYTES
from tests.support.backends import DOCUMENTS, Stack, StoreStub, opened_stack

DEMO = "/v1/collections/demo"
LONG = " " + "x" * 7_000_000


@pytest.fixture
async def stack() -> AsyncIterator[Stack]:
    """Three documents of 7 MB each and three short ones, all about plums."""
    async with opened_stack() as stack:
        for name in ("one", "two", "three"):
            document = {"id": name, "title": "Plum", "text": f"plum {name}{LONG}", "metadata": {"kind": "fruit"}}
            assert (await stack.client.post(f"{DEMO}/documents", json={"documents": [document]})).json()["complete"]
        short = [{"id": f"short-{n}", "title": "Plum", "text": f"plum number {n}"} for n in range(3)]
        await stack.client.post(f"{DEMO}/documents", json={"documents": short})
        yield stack


async def test_documents_beyond_what_an_answer_holds_are_refused_with_the_numbers(stack: Stack) -> None:
    answer = await stack.client.post(f"{DEMO}/documents/get", json={"ids": ["one", "two", "three"]})
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:problem:answer-too-large")
    assert f"holds {MOST_ANSWER_BYTES} at most: ask for fewer documents" in answer.json()["detail"]
    fewer = await stack.client.post(f"{DEMO}/documents/get", json={"ids": ["one", "two", "gone"]})
    assert ([one["id"] for one in fewer.json()["documents"]], fewer.json()["missing"]) == (["one", "two"], ["gone"])


async def test_a_search_that_includes_too_much_is_refused_and_one_that_includes_titles_is_not(stack: Stack) -> None:
    answer = await stack.search("plum", "bm25", include=["text"])
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:problem:answer-too-large")
    assert "a smaller top" in answer.json()["detail"]
    titles = (await stack.search("plum", "bm25", include=["title"])).json()
    assert [hit["title"] for hit in titles["hits"]] == ["Plum"] * 6
    assert titles["degraded"] == []
    two = (await stack.search("plum one", "bm25", include=["text"], top=2)).json()
    assert {len(hit["text"]) for hit in two["hits"]} >= {len(f"plum one{LONG}")}


RERANKED = {  # a re-ranking that leaves the first stage's order
    "name": "kept",
    "stages": [{"kind": "retrieve", "backend": "lexical"}, {"kind": "rerank", "weight": 0.0}],
}


async def test_candidates_with_huge_texts_are_re_ranked_and_included_whole(stack: Stack) -> None:
    answer = (await stack.search("plum one", RERANKED, include=["title", "text"], top=1)).json()
    assert answer["degraded"] == []
    assert [hit["text"] for hit in answer["hits"]] == [f"plum one{LONG}"]
    passages = stack.reranker.asked[-1].passages
    assert len(passages) == 6
    assert sum(map(len, passages)) < 8_000_000
    assert "Plum plum number 2" in passages
    assert [asked.ids for asked in stack.lexical.fetched[1:]] == [("one",)]  # only what was cut is read again


async def test_metadata_after_a_re_ranking_is_read_for_the_hits_alone() -> None:
    async with opened_stack() as stack:
        answer = (await stack.search("fruit trees", include=["title", "metadata"], top=2)).json()
        fetched = [(len(asked.ids), asked.include) for asked in stack.lexical.fetched]
    assert [hit["metadata"]["kind"] for hit in answer["hits"]] == ["plant", "fruit"]
    assert fetched[-1] == (2, ("metadata", "title"))


async def test_a_re_ranking_that_is_refused_reads_no_texts() -> None:
    async with opened_stack() as stack:
        stack.wires["reranker"].fault = "hung"
        many = (stack.search("fruit trees", "bm25-rerank", deadline_ms=1_200) for _ in range(CONNECTIONS + 20))
        answers = [answer.json() for answer in await asyncio.gather(*many)]
        assert any(stage["reason"] == "overloaded" for answer in answers for stage in answer["degraded"])
        assert stack.lexical.asked[0].include == ("title", "text")
        await stack.search("fruit trees", "bm25-rerank", deadline_ms=500)
        assert stack.lexical.asked[-1].include == ()


STORED = [one["id"] for one in DOCUMENTS]
ALL_PARTS = ["title", "text", "metadata"]
FUSED = {
    "name": "fused",
    "stages": [{"kind": "fuse", "inputs": [{"kind": "retrieve", "backend": one} for one in ("lexical", "dense")]}],
}
SOME_RERANKED = {"name": "some", "stages": [{"kind": "retrieve", "backend": "lexical"}, {"kind": "rerank", "top": 2}]}


@pytest.mark.parametrize(
    ("pipeline", "more"),
    [
        ("bm25", {"include": ["title"]}),
        ("bm25", {"include": ALL_PARTS, "explain": True}),
        ("bm25-rerank", {}),
        ("bm25-rerank", {"include": ["title", "text"], "explain": "candidates"}),
    ],
)
async def test_documents_come_with_the_hits_and_the_answer_is_that_of_two_requests(
    pipeline: str, more: dict[str, object]
) -> None:
    async with opened_stack() as stack:
        answers = []
        withheld: Collection[str]
        for withheld in ((), ("tree",), [*map(str, STORED)]):
            stack.lexical.withheld = withheld
            answer = (await stack.search("fruit trees", pipeline, **more)).json()
            stack.lexical.fetched, fetched = [], [one for asked in stack.lexical.fetched for one in asked.ids]
            assert set(fetched) == {*withheld} & {"apple", "banana", "tree"}
            answers.append([answer[part] for part in ("hits", "degraded", "models")])
        assert answers[0] == answers[1] == answers[2]
        assert answers[0][1] == []


@pytest.mark.parametrize(
    ("pipeline", "more"),
    [
        ("bm25", {}),
        ("bm25", {"include": ["text"], "offset": 0}),
        ("bm25", {"include": ["text"], "top": 200}),
        ("bm25", {"include": ["text"], "explain": "candidates"}),
        ("bm25-rerank", {"top": 200}),
        (FUSED, {"include": ["text"]}),
        (SOME_RERANKED, {}),
        ({"name": "other", "stages": [{"kind": "retrieve", "backend": "no-store"}]}, {"include": ["text"]}),
    ],
)
async def test_no_document_comes_with_hits_where_not_all_of_them_are_read(
    pipeline: object, more: dict[str, object]
) -> None:
    other = StoreStub("lexical")
    async with opened_stack(stores={"no-store": other}) as stack:
        answer = (await stack.search("fruit trees", pipeline, **more)).json()
        assert answer["degraded"] == []
        assert {asked.include for asked in (*stack.lexical.asked, *other.asked)} == {()}
