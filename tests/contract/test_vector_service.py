"""A vector service of any representation, over HTTP and real storage: its encoder and settings are all that it adds."""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from pydantic_settings import SettingsConfigDict

from services.chassis.deadlines import Deadline
from services.chassis.errors import DeadlineExceeded
from services.storage.representation import MultiVector, Representation, Sparse, SparseVector, TokenVectors
from services.vectorservice.compose import build_vector_app
from services.vectorservice.encoder import Encoder
from services.vectorservice.settings import Directory, Prefix, VectorServiceSettings
from tests.support.opened_client import ok, opened_client

DIMENSION = 16
TEXTS = {
    "chain": "oil the chain of the bicycle",
    "brake": "bleed the brake",
    "both": "oil the brake and the chain",
    "empty": "",
}
DOCUMENTS = [{"id": one, "text": text, "metadata": {"topic": one}} for one, text in TEXTS.items()]
DECLARATION = {"metadata": {"topic": "keyword"}}


class ToySettings(VectorServiceSettings):
    model_config = SettingsConfigDict(env_prefix="TOY_", frozen=True, extra="ignore")

    port: int = 0
    directory: Directory = Path(".data/toy")
    prefix: Prefix = "toy."


class ToyEncoder:
    """What both toys share: a stamp, and nothing to close."""

    def __init__(self, model: str = "toy") -> None:
        self.stamp: Mapping[str, str] = {"model": model}

    async def close(self) -> None: ...


class TermCounts(ToyEncoder):
    """Sparse: how often each word occurs."""

    representation: Representation = Sparse()

    async def encode_query(self, text: str, deadline: Deadline) -> SparseVector:
        terms, counts = np.unique([zlib.crc32(word.encode()) for word in text.split()], return_counts=True)
        return SparseVector(terms.astype(np.uint32), counts.astype(np.float32))

    async def encode_passages(self, texts: Sequence[str], deadline: Deadline) -> Iterable[SparseVector]:
        return [await self.encode_query(text, deadline) for text in texts]


class WordVectors(ToyEncoder):
    """Multi-vector: a direction for each word, and one for the end of the text."""

    representation: Representation = MultiVector(DIMENSION, "fp32")

    async def encode_query(self, text: str, deadline: Deadline) -> TokenVectors:
        drawn = [np.random.default_rng(zlib.crc32(word.encode())) for word in (*text.split(), "")]
        rows = np.array([random.standard_normal(DIMENSION) for random in drawn], dtype=np.float32)
        found: TokenVectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return found

    async def encode_passages(self, texts: Sequence[str], deadline: Deadline) -> Iterable[TokenVectors]:
        return [await self.encode_query(text, deadline) for text in texts]


Toy = type[TermCounts] | type[WordVectors]
ENCODERS: Mapping[str, Toy] = {"sparse": TermCounts, "multi-vector": WordVectors}


def service(directory: Path, encoder: Encoder) -> AbstractAsyncContextManager[httpx.AsyncClient]:
    return opened_client(build_vector_app("toy", ToySettings(directory=directory), lambda: encoder))


@pytest.fixture(params=ENCODERS)
def toy(request: pytest.FixtureRequest) -> Toy:
    return ENCODERS[request.param]


async def search(client: httpx.AsyncClient, generation: str = "notes@1", **asked: object) -> list[tuple[str, float]]:
    body = {"query": "oil chain", **asked}
    answer = await ok(client.post(f"/v1/collections/{generation}/search", json=body))
    return [(hit["id"], hit["score"]) for hit in answer["hits"]]


async def begin(client: httpx.AsyncClient, generation: str = "notes@1") -> dict[str, Any]:
    await ok(client.put(f"/v1/collections/{generation}", json=DECLARATION))
    return await ok(client.post(f"/v1/collections/{generation}/documents", json={"documents": DOCUMENTS}))


async def expected(encoder: Encoder) -> list[tuple[str, float]]:
    """NumPy's ranking of the texts for the query."""
    later = Deadline.after_ms(60_000)
    query = await encoder.encode_query("oil chain", later)
    scores: dict[str, float] = {}
    for one, vector in zip(TEXTS, await encoder.encode_passages(tuple(TEXTS.values()), later), strict=True):
        if isinstance(query, SparseVector):
            assert isinstance(vector, SparseVector)
            _, left, right = np.intersect1d(query.terms, vector.terms, return_indices=True)
            if left.size:
                scores[one] = float(query.weights[left] @ vector.weights[right])
        else:
            assert not isinstance(vector, SparseVector)
            scores[one] = float((query @ vector.T).max(axis=1).sum())
    return sorted(scores.items(), key=lambda found: (-found[1], found[0]))


async def test_documents_are_indexed_finished_published_and_found(tmp_path: Path, toy: Toy) -> None:
    encoder = toy()
    async with service(tmp_path, encoder) as client:
        assert (await begin(client))["encoded"] == 4
        finished = await ok(client.post("/v1/collections/notes@1/finish", json={}))
        published = await ok(client.post("/v1/collections/notes@1/publish", json={}))
        assert (finished["documents"], published["published"], published["stamp"]) == (4, True, {"model": "toy"})
        for exact in (False, True):
            found, wanted = await search(client, exact=exact), await expected(encoder)
            assert [one for one, _ in found] == [one for one, _ in wanted]
            assert [score for _, score in found] == pytest.approx([score for _, score in wanted], abs=1e-5)
        only = {"all": [{"field": "topic", "op": "eq", "value": "both"}]}
        assert [one for one, _ in await search(client, filter=only)] == ["both"]
        assert "both" not in dict(await search(client, exclude_ids=["both"]))
    async with service(tmp_path, toy()) as client:
        states = await ok(client.get("/v1/collections"))
        assert [(one["generation"], one["published"]) for one in states["collections"]] == [("notes@1", True)]
        assert await search(client, exact=True) == found


async def test_a_new_generation_takes_over_the_vectors_of_unchanged_passages(tmp_path: Path, toy: Toy) -> None:
    async with service(tmp_path, toy()) as client:
        await begin(client)
        assert (await begin(client, "notes@2"))["encoded"] == 0
        assert await search(client, "notes@2") == await search(client)
        deleted = await ok(client.post("/v1/collections/notes@2/documents/delete", json={"ids": ["both", "never"]}))
        assert deleted["deleted"] == 1
        assert "both" not in dict(await search(client, "notes@2"))


class OnceInTime(TermCounts):
    """Has time to encode for once."""

    encoded = 0

    async def encode_passages(self, texts: Sequence[str], deadline: Deadline) -> Iterable[SparseVector]:
        self.encoded += 1
        if self.encoded > 1:
            raise DeadlineExceeded("too late")
        return await super().encode_passages(texts, deadline)


async def test_of_long_documents_those_that_were_encoded_in_time_stay(tmp_path: Path) -> None:
    async with service(tmp_path, OnceInTime()) as client:
        await ok(client.put("/v1/collections/notes@1", json={}))
        books = [{"id": one, "text": "word " * 60_000} for one in ("first", "second")]
        late = await client.post("/v1/collections/notes@1/documents", json={"documents": books})
        assert late.status_code == 504
        assert [one for one, _ in await search(client, query="word")] == ["first"]


async def test_vectors_of_another_model_or_representation_are_refused(tmp_path: Path) -> None:
    async with service(tmp_path, TermCounts()) as client:
        await begin(client)
    for other, said in ((TermCounts("other"), "model=toy"), (WordVectors(), "multi-vector")):
        async with service(tmp_path, other) as client:
            answer = await client.post("/v1/collections/notes@1/search", json={"query": "oil"})
            assert answer.status_code == 409
            assert said in answer.json()["detail"]
            assert (await client.put("/v1/collections/notes@1", json=DECLARATION)).status_code == 409
    async with service(tmp_path, WordVectors()) as client:
        assert (await begin(client, "notes@2"))["encoded"] == 4


async def test_readiness_names_what_was_published_under_other_settings(tmp_path: Path) -> None:
    def detail(ready: dict[str, Any]) -> str:
        return str(next(check["detail"] for check in ready["checks"] if check["name"] == "encoder"))

    async with service(tmp_path, TermCounts()) as client:
        for generation in ("notes@1", "notes@2", "other@1"):
            await begin(client, generation)
        for generation in ("notes@2", "other@1"):
            await ok(client.post(f"/v1/collections/{generation}/publish", json={}))
        assert detail(await ok(client.get("/readyz"))) == "toy"
    for changed in (TermCounts("other"), WordVectors()):
        async with service(tmp_path, changed) as client:
            assert "notes@2, other@1" in detail(await ok(client.get("/readyz")))
    async with service(tmp_path, WordVectors()) as client:
        await begin(client, "notes@3")
        await ok(client.post("/v1/collections/notes@3/publish", json={}))
        left = detail(await ok(client.get("/readyz")))
        assert "other@1" in left
        assert "notes" not in left


async def test_readiness_names_the_encoder_and_a_server_without_an_address_is_refused(tmp_path: Path) -> None:
    async with service(tmp_path, TermCounts()) as client:
        ready = await ok(client.get("/readyz"))
        assert [(check["name"], check["ok"]) for check in ready["checks"]] == [("store", True), ("encoder", True)]
    with pytest.raises(ValueError, match="TOY_STORE=qdrant"):
        ToySettings(store="qdrant", qdrant_url=None)
