"""All documents of a collection are read from the gateway page by page; real services."""

from typing import Any
from urllib.parse import quote

import pytest

from tests.support.real_stack import RealStack, numbered

PAGES = "/v1/collections/c/documents"


async def pages(loaded: RealStack, most: int) -> list[dict[str, Any]]:
    """Returns every page, each asked for with `most`."""
    found = [page := (await loaded.client.get(f"{PAGES}?most={most}")).json()]
    while page["following"] is not None:
        page = (await loaded.client.get(f"{PAGES}?most={most}&after={quote(page['following'])}")).json()
        found.append(page)
    return found


async def test_the_pages_together_have_every_document_whole_and_once(loaded: RealStack) -> None:
    kept = {"id": "kept", "title": "Title", "text": "a text", "metadata": {"year": 2021, "kind": ["a", "b"]}}
    assert (await loaded.send([kept])).json()["complete"]
    assert (await loaded.post("/documents/delete", ids=["d00"])).json()["complete"]
    found = await pages(loaded, 7)
    assert {page["generation"] for page in found} == {"c@1"}
    assert max(len(page["documents"]) for page in found) == 7
    documents = [one for page in found for one in page["documents"]]
    assert len(documents) == 40
    assert {one["id"] for one in documents} == {"kept", *(f"d{number:02}" for number in range(1, 40))}
    assert kept in documents
    whole = (await loaded.client.get(PAGES)).json()
    assert (whole["documents"], whole["following"]) == (documents, None)


@pytest.mark.integration  # takes seconds
async def test_a_page_holds_fewer_documents_where_they_are_large(loaded: RealStack) -> None:
    for name in ("one", "two", "three"):
        assert (await loaded.send([{"id": name, "text": "." * 7_000_000}])).json()["complete"]
    found = await pages(loaded, 1_000)
    assert len(found) > 1
    assert sorted(one["id"] for page in found for one in page["documents"]) == sorted(
        ["one", "two", "three", *(str(one["id"]) for one in numbered(40))]
    )


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("most=1001", "query.most"),
        ("after=", "query.after"),
        (f"after={'x' * 521}", "query.after"),
        ("after=d00", "`following`"),
        ("before=d00", "query.before"),
    ],
)
async def test_what_is_no_page_is_refused(loaded: RealStack, asked: str, words: str) -> None:
    answer = await loaded.client.get(f"{PAGES}?{asked}")
    assert answer.status_code == 422, answer.text
    assert words in answer.json()["detail"]


async def test_a_cursor_of_a_page_that_is_gone_goes_on_behind_it(loaded: RealStack) -> None:
    first = (await loaded.client.get(f"{PAGES}?most=10")).json()
    assert (await loaded.post("/documents/delete", ids=[f"d{number:02}" for number in range(40)])).json()["complete"]
    rest = (await loaded.client.get(f"{PAGES}?after={first['following']}")).json()
    assert rest == {"generation": "c@1", "documents": [], "following": None}


async def test_only_what_searches_see_has_pages(loaded: RealStack) -> None:
    assert (await loaded.client.get("/v1/collections/none/documents")).status_code == 404
    assert (await loaded.client.put("/v1/collections/new", json={"build": "b"})).status_code == 200
    refused = await loaded.client.get("/v1/collections/new/documents")
    assert (refused.status_code, "no published generation" in refused.text) == (404, True)
    assert (await loaded.begin(build="second", new_generation=True)).status_code == 200
    assert (await loaded.send([{"id": "x", "text": "x"}], build="second")).json()["complete"]
    assert (await loaded.client.get(f"{PAGES}?most=1")).json()["generation"] == "c@1"


@pytest.mark.parametrize("identity", ["a/b?c=d", "get", "ü 1", "https://a.example/", "a\n"])
async def test_one_document_is_read_and_deleted_by_its_path(loaded: RealStack, identity: str) -> None:
    kept = {"id": identity, "title": "Title", "text": "a text", "metadata": {"year": 2021}}
    assert (await loaded.send([kept])).json()["complete"]
    path = f"{PAGES}/{quote(identity, safe='')}"
    assert (await loaded.client.get(path)).json() == kept
    assert (await loaded.client.delete(path)).json()["complete"]
    gone = await loaded.client.get(path)
    assert (gone.status_code, gone.json()["type"].rpartition("/")[2].rpartition(":")[2]) == (404, "not-found")


async def test_a_path_never_names_another_document(loaded: RealStack) -> None:
    others = ["https://a.example", "\ufffd"]
    assert (await loaded.send([{"id": one, "text": "a text"} for one in others])).json()["complete"]
    assert (await loaded.client.delete(f"{PAGES}/https%3A%2F%2Fa.example%2F")).json()["complete"]
    wrong = await loaded.client.delete(f"{PAGES}/%FF")
    assert (wrong.status_code, "UTF-8" in wrong.json()["detail"]) == (422, True)
    assert (await loaded.post("/documents/get", ids=others)).json()["missing"] == []
