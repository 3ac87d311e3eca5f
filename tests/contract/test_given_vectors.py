"""Dense vectors that come with documents are stored in place of encoding, and read back as they are stored; over HTTP,
real storage."""

import zlib
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from services.chassis.deadlines import Deadline
from services.contracts.vectors import MOST_ANSWER_COMPONENTS, MOST_VECTOR_IDS
from services.storage.representation import Dense, DenseVector, MultiVector, Representation, Vector
from tests.contract.test_vector_service import (
    DECLARATION,
    DIMENSION,
    DOCUMENTS,
    TermCounts,
    ToyEncoder,
    WordVectors,
    begin,
    search,
    service,
)
from tests.support.opened_client import ok

PATH = "/v1/collections/notes@1/documents"
IDS = [str(one["id"]) for one in DOCUMENTS]


class WordSums(ToyEncoder):
    """Dense: the sum of a direction for each word."""

    representation: Representation = Dense(DIMENSION)

    async def encode_query(self, text: str, deadline: Deadline) -> Vector:
        drawn = [np.random.default_rng(zlib.crc32(word.encode())) for word in (*text.split(), "")]
        found: DenseVector = np.sum([random.standard_normal(DIMENSION) for random in drawn], axis=0, dtype=np.float32)
        return found

    async def encode_passages(self, texts: Sequence[str], deadline: Deadline) -> Iterable[Vector]:
        return [await self.encode_query(text, deadline) for text in texts]


class WordCodes(WordVectors):
    """Multi-vector, stored as codes of 4 bits."""

    representation: Representation = MultiVector(DIMENSION, "turbo4")


class QueriesAlone(WordSums):
    """Encodes queries alone."""

    async def encode_passages(self, texts: Sequence[str], deadline: Deadline) -> Iterable[Vector]:
        raise AssertionError(f"encoded: {texts}")


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with service(tmp_path / "encoding", WordSums()) as client:
        await begin(client)
        yield client


async def stored(client: httpx.AsyncClient, *ids: str) -> dict[str, dict[str, Any]]:
    answer = await ok(client.post(f"{PATH}/vectors", json={"ids": ids or IDS}))
    assert answer["generation"] == "notes@1"
    return {one["id"]: one for one in answer["vectors"]}


def with_vectors(found: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**one, "vectors": {"toy": found[str(one["id"])]["vector"]}} for one in DOCUMENTS]


async def test_what_is_read_is_stored_elsewhere_without_encoding_and_searched_the_same(
    client: httpx.AsyncClient, tmp_path: Path
) -> None:
    found = await stored(client)
    assert list(found) == IDS
    digest = (await ok(client.post("/v1/collections/notes@1/finish", json={})))["digest"]
    async with service(tmp_path / "given", QueriesAlone()) as other:
        await ok(other.put("/v1/collections/notes@1", json=DECLARATION))
        report = await ok(other.post(PATH, json={"documents": with_vectors(found)}))
        assert (report["indexed"], report["encoded"], report["errors"]) == (4, 0, [])
        assert await stored(other) == found
        assert await search(other) == await search(client)
        assert (await ok(other.post("/v1/collections/notes@1/finish", json={})))["digest"] == digest
        again = await ok(other.post(PATH, json={"documents": with_vectors(found)}))
        assert (again["indexed"], again["unchanged"]) == (0, 4)
        assert (await ok(other.post(PATH, json={"documents": DOCUMENTS})))["unchanged"] == 4


async def test_equal_passages_keep_their_own_vectors_when_metadata_changes(client: httpx.AsyncClient) -> None:
    found = await stored(client)
    twins = [{"id": one, "text": "twin", "vectors": {"toy": found[one]["vector"]}} for one in ("chain", "both")]
    assert (await ok(client.post(PATH, json={"documents": twins})))["indexed"] == 2
    changed = [{"id": one["id"], "text": "twin", "metadata": {"new": 1}} for one in twins]
    report = await ok(client.post(PATH, json={"documents": changed}))
    assert (report["indexed"], report["encoded"], report["errors"]) == (2, 0, [])
    kept = await stored(client, "chain", "both")
    assert {one: kept[one]["vector"] for one in kept} == {one: found[one]["vector"] for one in ("chain", "both")}


async def test_a_vector_replaces_the_one_of_an_unchanged_text(client: httpx.AsyncClient) -> None:
    found = await stored(client)
    moved = {**DOCUMENTS[0], "vectors": {"toy": found["both"]["vector"]}}
    report = await ok(client.post(PATH, json={"documents": [moved]}))
    assert (report["indexed"], report["unchanged"], report["encoded"]) == (1, 0, 0)
    assert (await stored(client, "chain"))["chain"]["vector"] == found["both"]["vector"]


async def test_a_vector_that_does_not_fit_is_refused_and_the_others_of_its_batch_are_taken(
    client: httpx.AsyncClient,
) -> None:
    found = await stored(client)
    good = found["both"]["vector"]
    wrong = {
        "model": {**good, "model": "other"},
        "wide": {"model": "toy", "dense": [0.5] * (DIMENSION + 1)},
        "huge": {"model": "toy", "dense": [1e300] * DIMENSION},
    }
    batch = [{"id": name, "text": name, "vectors": {"toy": vector}} for name, vector in wrong.items()]
    two = {"id": "two", "text": "two", "vectors": {"toy": good, "other": good}}
    report = await ok(client.post(PATH, json={"documents": [*batch, two, {"id": "plain", "text": "plain"}]}))
    assert (report["indexed"], report["encoded"]) == (1, 1)
    assert {error["id"]: error["retryable"] for error in report["errors"]} == dict.fromkeys([*wrong, "two"], False)
    wide_reason = report["errors"][1]["reason"]
    assert wide_reason.startswith("vectors.toy: A vector of shape (")
    assert f"of {DIMENSION} dimensions." in wide_reason
    assert wide_reason.endswith(
        "Send the document again with one that fits, or without it: then its passage is encoded."
    )
    assert {"other", "toy"} <= set(report["errors"][0]["reason"].replace(",", "").replace(";", "").split())
    assert list(await stored(client, *wrong, "two", "plain")) == ["plain"]


@pytest.mark.parametrize(
    "vector",
    [
        {"dense": [1.0]},
        {"model": "toy"},
        {"model": "toy", "dense": []},
        {"model": "toy", "dense": ["1"]},
        {"model": "toy", "dense": [1.0], "tokens": [[1.0]]},
    ],
)
async def test_what_is_no_vector_is_refused(tmp_path: Path, vector: dict[str, Any]) -> None:
    async with service(tmp_path, WordSums()) as client:
        await begin(client)
        refused = await client.post(PATH, json={"documents": [{"id": "a", "text": "a", "vectors": {"toy": vector}}]})
        assert refused.status_code == 422
        assert ("export without --vectors" if "tokens" in vector else "vectors") in refused.json()["detail"]


@pytest.mark.parametrize("toy", [TermCounts, WordCodes])
async def test_other_vectors_are_neither_taken_nor_returned(
    tmp_path: Path, toy: type[TermCounts] | type[WordCodes]
) -> None:
    async with service(tmp_path, toy()) as client:
        await begin(client)
        given = {"model": "toy", "dense": [0.5] * DIMENSION}
        batch = [{"id": "a", "text": "a", "vectors": {"toy": given}}]
        [error] = (await ok(client.post(PATH, json={"documents": batch})))["errors"]
        assert "send the document without it" in error["reason"]
        refused = await client.post(f"{PATH}/vectors", json={"ids": IDS})
        assert (refused.status_code, "only dense ones can be read" in refused.text) == (422, True)


async def test_an_answer_of_vectors_is_bounded(tmp_path: Path) -> None:
    class Wide(QueriesAlone):
        representation: Representation = Dense(MOST_ANSWER_COMPONENTS // MOST_VECTOR_IDS * 2)

    dense = [0.5] * Wide.representation.dimension  # type: ignore[union-attr]  # see above
    ids = [str(number) for number in range(MOST_VECTOR_IDS // 2 + 1)]
    async with service(tmp_path, Wide()) as client:
        await ok(client.put("/v1/collections/notes@1", json={}))
        for one in ids:
            batch = [{"id": one, "text": one, "vectors": {"toy": {"model": "toy", "dense": dense}}}]
            assert (await ok(client.post(PATH, json={"documents": batch})))["encoded"] == 0
        refused = await client.post(f"{PATH}/vectors", json={"ids": ids})
        assert (refused.status_code, refused.json()["type"]) == (422, "urn:problem:answer-too-large")
        assert list(await stored(client, *ids[:-1])) == ids[:-1]
        many = [str(one) for one in range(MOST_VECTOR_IDS + 1)]
        assert (await client.post(f"{PATH}/vectors", json={"ids": many})).status_code == 422
