"""A family of backends is one row of the table: settings, checks and searches follow from it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from gateway import families
from gateway.families import Family
from gateway.settings import GatewaySettings
from services.contracts.documents import Document
from services.inference.text_encoder import stamp_of
from tests.support.backends import DOCUMENTS, Stack, StoreStub, inline, opened_stack
from tests.support.models import ids_as_hidden, tiny_encoder
from tests.support.word_overlap import trigrams

TOY = {"kind": "retrieve", "id": "toy", "backend": "toy"}
BM25 = {"kind": "retrieve", "id": "bm25", "backend": "lexical"}
KNOWN = "Input should be 'lexical', 'dense', 'sparse', 'late_interaction', 'reranker' or 'toy'"
WEIGHTED = {"kind": "fuse", "method": "weighted"}


class InnerProducts(StoreStub):
    """A store whose scores have no least one: an inner product with weights of both signs."""

    def score(self, query: str, document: Document) -> float:
        held = trigrams(document.passage)
        return float(sum(count * held[key] * (-1) ** len(key.strip()) for key, count in trigrams(query).items()))


@pytest.fixture
def row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(families.FAMILIES, "toy", Family(retrieves=True))


@pytest.fixture
async def stack(row: None) -> AsyncIterator[Stack]:
    async with opened_stack(stores={"toy": InnerProducts("toy")}) as stack:
        yield stack


async def test_a_new_family_is_loaded_searched_fused_and_reranked(stack: Stack) -> None:
    view = (await stack.client.get("/v1/collections/demo")).json()
    assert {one["backend"]: one["family"] for one in view["backends"]}["toy"] == "toy"
    alone = (await stack.search("fruit trees", inline(TOY), explain=True)).json()
    assert {hit["id"] for hit in alone["hits"]} == {document["id"] for document in DOCUMENTS}
    assert alone["hits"][-1]["score"] < -1.0
    hybrid = inline({"kind": "fuse", "id": "fuse", "inputs": [BM25, TOY]}, {"kind": "rerank", "id": "rerank"})
    body = (await stack.search("fruit trees", hybrid, explain=True)).json()
    assert (body["hits"][0]["stages"].keys(), body["degraded"]) == ({"bm25", "toy", "fuse", "rerank"}, [])


async def test_a_family_without_a_least_score_is_refused_where_one_is_needed(stack: Stack) -> None:
    fuse = {**WEIGHTED, "id": "fuse", "inputs": [BM25, TOY]}
    answer = await stack.search("fruit", inline({**fuse, "normalisation": "theoretical-min"}))
    assert answer.status_code == 422
    assert "backend 'toy' has none" in answer.json()["detail"]
    assert (await stack.search("fruit", inline({**fuse, "normalisation": "min-max"}))).status_code == 200


async def test_dot_products_of_vectors_that_are_not_normalised_have_no_least_score(tmp_path: Path) -> None:
    profile = tiny_encoder(tmp_path, ids_as_hidden(), normalise=False)
    dense = StoreStub("dense", stamp=stamp_of(profile, "0" * 64))
    fuse = {**WEIGHTED, "id": "fuse", "inputs": [BM25, {"kind": "retrieve", "id": "near", "backend": "dense"}]}
    async with opened_stack(stores={"dense": dense}) as stack:
        answer = await stack.search("fruit", inline({**fuse, "normalisation": "theoretical-min"}))
        assert (answer.status_code, dense.asked) == (422, [])
        assert "stage 'fuse': theoretical-min" in answer.json()["detail"]
        assert "backend 'dense' has none for demo@1" in answer.json()["detail"]
        other = inline({**fuse, "normalisation": "min-max"})
        candidates = (await stack.search("fruit", other, explain="candidates")).json()["candidates"]
        assert (candidates["bm25"].get("least_score"), candidates["near"].get("least_score")) == (0.0, None)


async def test_cosines_have_the_least_score_of_minus_one(stack: Stack) -> None:
    near = {"kind": "retrieve", "id": "near", "backend": "dense"}
    fuse = {**WEIGHTED, "normalisation": "theoretical-min", "inputs": [BM25, near]}
    answer = await stack.search("fruit", inline(fuse), explain="candidates")
    assert answer.json()["candidates"]["near"]["least_score"] == -1.0


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ({"preset": "beir"}, "presets are lexical; backend 'toy' is toy"),
        ({"exact": True}, "exact is for vectors; backend 'toy' is toy"),
    ],
)
async def test_an_option_that_the_row_does_not_have_is_refused(
    stack: Stack, option: dict[str, object], told: str
) -> None:
    answer = await stack.search("fruit", inline({**TOY, **option}))
    assert answer.status_code == 422
    assert told in answer.json()["detail"]


@pytest.mark.parametrize(
    ("backends", "told"),
    [
        ({"a": {"family": "x", "url": "http://a"}}, KNOWN),
        ({"a": {"family": 5, "url": "http://a"}}, KNOWN),
        (
            {"a": {"family": "reranker", "url": "http://a"}},
            "name at least one backend of family lexical or dense or sparse or late_interaction or toy",
        ),
    ],
)
@pytest.mark.usefixtures("row")
def test_settings_tell_the_families_of_the_table(backends: object, told: str) -> None:
    with pytest.raises(ValidationError) as fault:
        GatewaySettings.model_validate({"backends": backends})
    assert told in str(fault.value)
