"""Documents are deleted by a filter, and their metadata changed without encoding; a gateway over real services."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.support.real_stack import RealStack, real_stack

DOCUMENTS = [
    {"id": f"d{number:02}", "text": f"word {number}", "metadata": {"year": 2000 + number, "shop": "a"}}
    for number in range(20)
]
LATE = {"all": [{"field": "year", "op": "gte", "value": 2015}]}
DENSE = {"name": "d", "stages": [{"kind": "retrieve", "backend": "dense"}]}


class Before(httpx.AsyncBaseTransport):
    """Sends a batch of documents before the first request whose path ends with these words."""

    def __init__(self, stack: RealStack, backend: str, words: str, documents: list[dict[str, object]]) -> None:
        self._stack, self._way, self._words, self._documents = stack, stack.ways[backend], words, documents
        self._inner = self._way.inner
        self._way.inner = self

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith(self._words):
            self._way.inner = self._inner
            await self._stack.send(self._documents)
        return await self._inner.handle_async_request(request)


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[RealStack]:
    async with real_stack(tmp_path) as stack:
        await stack.load(DOCUMENTS, metadata={"year": "number"})
        yield stack


async def same_everywhere(stack: RealStack, generation: str = "c@1") -> bool:
    return len(set((await stack.digests(generation)).values())) == 1


async def test_documents_that_pass_a_filter_are_deleted_everywhere(stack: RealStack) -> None:
    report = (await stack.post("/documents/delete", filter=LATE)).json()
    assert (report["documents"], report["complete"], report.get("more")) == (5, True, None)
    assert await stack.live() == {"lexical": 15, "dense": 15}
    assert await same_everywhere(stack)
    again = (await stack.post("/documents/delete", filter=LATE)).json()
    assert again == {"collection": "c@1", "complete": True, "documents": 0, "stripped_characters": 0,
                     "undeclared_metadata": [], "services": []}  # fmt: skip


async def test_more_than_a_thousand_are_deleted_by_the_same_request_again(stack: RealStack) -> None:
    for start in range(0, 1_010, 202):
        many = [{"id": str(one), "text": "", "metadata": {"year": 1990}} for one in range(start, start + 202)]
        assert (await stack.send(many)).json()["complete"]
    early = {"all": [{"field": "year", "op": "lte", "value": 1990}]}
    reports = [(await stack.post("/documents/delete", filter=early)).json() for _ in range(2)]
    assert [(one["documents"], one.get("more")) for one in reports] == [(1_000, True), (10, None)]
    assert await stack.live() == {"lexical": 20, "dense": 20}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "either `ids` or a `filter`"),
        ({"ids": ["a"], "filter": LATE}, "either `ids` or a `filter`"),
        ({"filter": {"all": []}}, "filter.all"),
        ({"filter": {"all": [{"field": "shop", "op": "exists"}]}}, "shop is not declared"),
    ],
)
async def test_a_delete_that_names_no_documents_deletes_none(
    stack: RealStack, body: dict[str, object], words: str
) -> None:
    refused = await stack.post("/documents/delete", **body)
    assert (refused.status_code, words in refused.json()["detail"]) == (422, True), refused.text
    assert await stack.live() == {"lexical": 20, "dense": 20}


async def test_a_filter_deletes_from_a_build_alone(stack: RealStack) -> None:
    assert (await stack.begin(build="next", new_generation=True, metadata={"year": "number"})).status_code == 200
    assert (await stack.send(DOCUMENTS, build="next")).json()["complete"]
    report = (await stack.post("/documents/delete", filter=LATE, build="next")).json()
    assert (report["collection"], report["documents"], report["complete"]) == ("c@2", 5, True)
    assert await stack.live() == {"lexical": 20, "dense": 20}
    assert (await stack.post("/publish", build="next", expected_documents=15)).status_code == 200
    assert (await stack.post("/documents/delete", filter=LATE, build="other")).status_code == 409


@pytest.mark.integration  # takes seconds
async def test_too_much_metadata_at_once_is_refused_with_what_to_do(stack: RealStack) -> None:
    for number in range(3):
        huge = {"id": f"h{number}", "text": "." * 6_000_000}
        assert (await stack.send([huge])).json()["complete"]
    changes = [{"id": f"h{number}", "metadata": {"a": 1}} for number in range(3)]
    refused = await stack.post("/documents/metadata", documents=changes)
    assert (refused.status_code, refused.json()["detail"].endswith("send fewer at once.")) == (422, True)
    assert (await stack.post("/documents/metadata", documents=changes[:1])).json()["complete"]


async def test_a_document_that_is_written_while_its_filter_is_searched_stays(stack: RealStack) -> None:
    Before(stack, "lexical", "/documents/delete", [{"id": "d19", "text": "new", "metadata": {"year": 1999}}])
    report = (await stack.post("/documents/delete", filter=LATE)).json()
    assert (report["complete"], "d19" in str(report["services"])) == (False, True)
    assert list(await stack.texts(["d18", "d19"])) == ["d19"]
    assert await same_everywhere(stack)
    assert (await stack.post("/documents/delete", filter=LATE)).json()["complete"]


async def test_metadata_is_changed_and_nothing_is_encoded(stack: RealStack) -> None:
    before = (await stack.post("/search", query="word 3", pipeline=DENSE)).json()["hits"]
    changes = [
        {"id": "d03", "metadata": {"year": 1900, "shop": None, "new": ["x"]}},
        {"id": "none", "metadata": {"a": 1}},
    ]
    answer = await stack.post("/documents/metadata", documents=changes)
    report = answer.json()
    assert (report["complete"], report["documents"], report["missing"]) == (True, 1, ["none"])
    assert report["undeclared_metadata"] == ["new"]
    outcomes = {one["backend"]: one["report"] for one in report["services"]}
    assert {name: (one["indexed"], one["encoded"]) for name, one in outcomes.items()} == {
        "lexical": (1, 0),
        "dense": (1, 0),
    }
    [found] = (await stack.post("/documents/get", ids=["d03"])).json()["documents"]
    assert found == {"id": "d03", "title": "", "text": "word 3", "metadata": {"year": 1900, "new": ["x"]}}
    early = {"all": [{"field": "year", "op": "lte", "value": 1950}]}
    for pipeline in ("bm25", DENSE):
        hits = (await stack.post("/search", query="word 3", pipeline=pipeline, filter=early)).json()["hits"]
        assert [hit["id"] for hit in hits] == ["d03"]
    assert (await stack.post("/search", query="word 3", pipeline=DENSE)).json()["hits"] == before
    assert await same_everywhere(stack)
    again = (await stack.post("/documents/metadata", documents=changes)).json()
    assert [one["report"]["unchanged"] for one in again["services"]] == [1, 1]


async def test_a_text_that_is_written_meanwhile_is_not_undone(stack: RealStack) -> None:
    Before(stack, "dense", "/c@1/documents", [{"id": "d03", "text": "newer"}])
    report = (await stack.post("/documents/metadata", documents=[{"id": "d03", "metadata": {"year": 1}}])).json()
    assert report["complete"] is False
    assert await stack.texts(["d03"]) == {"d03": "newer"}
    assert await same_everywhere(stack)


async def test_metadata_of_live_documents_leaves_the_texts_of_a_build(stack: RealStack) -> None:
    assert (await stack.begin(build="next", new_generation=True, metadata={"year": "number"})).status_code == 200
    newer = [{"id": "d00", "text": "newer", "metadata": {"year": 1}}]
    assert (await stack.send(newer, build="next")).json()["complete"]
    change = [{"id": one, "metadata": {"shop": "b"}} for one in ("d00", "d01")]
    report = (await stack.post("/documents/metadata", documents=change)).json()
    assert (report["collection"], report["complete"], report["documents"]) == ("c@1", True, 2)
    [live] = (await stack.post("/documents/get", ids=["d00"])).json()["documents"]
    assert (live["text"], live["metadata"]) == ("word 0", {"year": 2000, "shop": "b"})
    assert await same_everywhere(stack, "c@2")
    assert (await stack.post("/publish", build="next", expected_documents=1)).status_code == 200
    [built] = (await stack.post("/documents/get", ids=["d00", "d01"])).json()["documents"]
    assert (built["text"], built["metadata"]) == ("newer", {"year": 1, "shop": "b"})


async def test_metadata_of_documents_that_a_build_lacks_stays_out_of_it(stack: RealStack) -> None:
    assert (await stack.begin(build="next", new_generation=True, metadata={"year": "number"})).status_code == 200
    report = (await stack.post("/documents/metadata", documents=[{"id": "d01", "metadata": {"shop": "b"}}])).json()
    assert (report["complete"], report["documents"]) == (True, 1)
    assert (await stack.states("lexical"))["c@2"]["documents"] == 0


async def test_metadata_of_a_build_is_changed_in_the_build_alone(stack: RealStack) -> None:
    assert (await stack.begin(build="next", new_generation=True, metadata={"year": "number"})).status_code == 200
    assert (await stack.send(DOCUMENTS[:2], build="next")).json()["complete"]
    change = [{"id": "d00", "metadata": {"year": 7}}]
    report = (await stack.post("/documents/metadata", documents=change, build="next")).json()
    assert (report["collection"], report["complete"]) == ("c@2", True)
    [live] = (await stack.post("/documents/get", ids=["d00"])).json()["documents"]
    assert live["metadata"]["year"] == 2000
    none = (await stack.post("/documents/metadata", documents=[{"id": "x", "metadata": {"a": 1}}])).json()
    assert (none["documents"], none["missing"], none["services"]) == (0, ["x"], [])


@pytest.mark.parametrize("documents", [[], [{"id": "d00", "metadata": {}}], [{"id": "d00", "metadata": {"a": 1}}] * 2])
async def test_what_changes_no_metadata_is_refused(stack: RealStack, documents: list[object]) -> None:
    assert (await stack.post("/documents/metadata", documents=documents)).status_code == 422
