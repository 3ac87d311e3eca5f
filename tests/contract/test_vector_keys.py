"""What decides a vector decides the key by which it is used again: over HTTP and real storage, in the same generation
and in a new build, and for dense vectors that were given."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from services.contracts.passages import Passages
from services.dense.encoder_hashing import HashingEncoder
from services.dense.encoder_passages import PassageEncoder
from services.vectorservice.encoder import Encoder
from tests.contract.test_given_vectors import WordCodes, WordSums
from tests.contract.test_vector_service import TermCounts, WordVectors, service
from tests.support.opened_client import ok
from tests.support.real_stack import RealStack, real_stack

WORDS = [f"word{number}" for number in range(60)]
TITLE, TEXT = " ".join(WORDS[:4]), " ".join(WORDS[4:])
OLD: dict[str, Any] = {"id": "a", "title": TITLE, "text": TEXT, "metadata": {"year": 2001}}
EXPANSIONS = {"doc2query": {"model": "m@0123456789ab", "queries": ["another word"]}}
# By what changes: the document afterwards.
CHANGES: Mapping[str, dict[str, Any]] = {
    "title and text are one text": {**OLD, "title": "", "text": f"{TITLE} {TEXT}"},
    "a word more is title": {**OLD, "title": " ".join(WORDS[:5]), "text": " ".join(WORDS[5:])},
    "another title": {**OLD, "title": "other words"},
    "another text": {**OLD, "text": f"{TEXT} more"},
    "another metadata": {**OLD, "metadata": {"year": 2002}},
    "expansions": {**OLD, "expansions": EXPANSIONS},
}
READS = {"another title", "another text"}
READS_THE_TITLE_APART = {"title and text are one text", "a word more is title"}
ENCODERS: Mapping[str, Callable[[], Encoder]] = {
    "dense": WordSums,
    "sparse": TermCounts,
    "multi-vector": WordVectors,
    "codes": WordCodes,
    "passages": lambda: PassageEncoder(HashingEncoder(), Passages(tokens=16, overlap=4)),
}


async def begin(client: httpx.AsyncClient, generation: str) -> None:
    await ok(client.put(f"/v1/collections/{generation}", json={}))


async def index(client: httpx.AsyncClient, generation: str, document: Mapping[str, Any]) -> int:
    """Returns how many texts were encoded."""
    report = await ok(client.post(f"/v1/collections/{generation}/documents", json={"documents": [document]}))
    assert (report["indexed"], report["errors"]) == (1, [])
    return int(report["encoded"])


async def hit(client: httpx.AsyncClient, generation: str) -> dict[str, Any]:
    """Returns the document's hit, whose score shows its vector."""
    query = {"query": f"{TITLE} {TEXT}", "top": 1}
    return dict((await ok(client.post(f"/v1/collections/{generation}/search", json=query)))["hits"][0])


async def dense_vector(client: httpx.AsyncClient) -> dict[str, Any]:
    answer = await ok(client.post("/v1/collections/notes@1/documents/vectors", json={"ids": ["a"]}))
    return dict(answer["vectors"][0]["vector"])


@asynccontextmanager
async def holding(directory: Path, encoder: Encoder, document: Mapping[str, Any]) -> AsyncIterator[httpx.AsyncClient]:
    """A service that holds the document in `notes@1`."""
    async with service(directory, encoder) as client:
        await begin(client, "notes@1")
        await index(client, "notes@1", document)
        yield client


@pytest.mark.parametrize("order", [("notes@1", "notes@2"), ("notes@2", "notes@1")], ids=["live first", "build first"])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", ENCODERS)
async def test_a_document_is_encoded_again_exactly_if_what_its_encoder_reads_has_changed(
    tmp_path: Path, kind: str, change: str, order: tuple[str, str]
) -> None:
    after = CHANGES[change]
    async with holding(tmp_path / "fresh", ENCODERS[kind](), after) as fresh:
        right = await hit(fresh, "notes@1")
    encoded = int(change in (READS | READS_THE_TITLE_APART if kind == "passages" else READS))
    async with holding(tmp_path / "held", ENCODERS[kind](), OLD) as client:
        await begin(client, "notes@2")
        assert [await index(client, generation, after) for generation in order] == [encoded, 0]
        assert [await hit(client, generation) for generation in order] == [right, right]


async def test_a_given_vector_stays_while_what_the_encoder_reads_stays(tmp_path: Path) -> None:
    async with holding(tmp_path, WordSums(), OLD) as client:
        right = await dense_vector(client)
        given = {**right, "dense": right["dense"][::-1]}
        assert await index(client, "notes@1", {**OLD, "vectors": {"toy": given}}) == 0
        assert await index(client, "notes@1", CHANGES["another metadata"]) == 0
        assert await dense_vector(client) == given
        assert await index(client, "notes@1", CHANGES["another text"]) == 1
        assert await dense_vector(client) not in (given, right)


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[RealStack]:
    async with real_stack(tmp_path) as stack:
        await stack.load([OLD])
        yield stack


@pytest.mark.parametrize("change", [change for change in CHANGES if change != "expansions"])
async def test_a_page_has_vectors_of_its_own_documents_alone(stack: RealStack, change: str) -> None:
    class Replacing(httpx.AsyncBaseTransport):
        """Replaces the document between the reads of its text and of its vector."""

        def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
            self._inner = inner

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.path.endswith("/documents/vectors"):
                assert (await stack.send([CHANGES[change]])).json()["complete"]
            return await self._inner.handle_async_request(request)

    async def page() -> dict[str, Any]:
        answer = await ok(stack.client.get("/v1/collections/c/documents", params={"vectors": True}))
        [document] = answer["documents"]
        return dict(document)

    assert (await page())["vectors"].keys() == {"dense"}
    inner = stack.ways["dense"].inner
    stack.ways["dense"].inner = Replacing(inner)
    assert (await page()).get("vectors", {}) == {}
    stack.ways["dense"].inner = inner
    assert (await page())["vectors"].keys() == {"dense"}
