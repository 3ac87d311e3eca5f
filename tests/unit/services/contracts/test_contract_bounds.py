"""Validation of a body reports few faults, reports them quickly, and says what would be right."""

import time
from collections.abc import Iterator

import pytest
from pydantic import BaseModel, ValidationError

from services.contracts.collections import BeginCollection
from services.contracts.documents import IdsRequest, IndexRequest
from services.contracts.filters import Condition, Filter
from services.contracts.pipelines import Pipeline
from services.contracts.query import SearchRequest
from services.contracts.rerank import ScoreRequest
from services.contracts.retrieval import RetrievalRequest
from services.contracts.validation_messages import validation_message
from services.dense.dialects.openai import EmbeddingsRequest
from services.dense.dialects.tei import EmbedRequest
from services.reranker.dialects.cohere import RerankV1, RerankV2
from services.reranker.dialects.tei import TeiRerank

MODELS: tuple[type[BaseModel], ...] = (
    BeginCollection, Condition, EmbeddingsRequest, Filter, IdsRequest, IndexRequest, Pipeline, RerankV1, RerankV2,
    RetrievalRequest, ScoreRequest, SearchRequest, EmbedRequest, TeiRerank,
)  # fmt: skip
LEG = {"kind": "retrieve", "backend": "lexical"}


def fuses(depth: int, **more: object) -> object:
    return {"kind": "fuse", "inputs": [fuses(depth - 1, **more)] * 8} if depth else {**LEG, **more}


def negated(times: int) -> object:
    return {"not": negated(times - 1)} if times else {"field": "a", "op": "exists"}


def piped(*stages: object) -> dict[str, object]:
    return {"query": "a", "pipeline": {"name": "x", "stages": list(stages)}}


DEEP: dict[str, tuple[type[BaseModel], object]] = {
    "256 documents with 190 wrong values": (
        IndexRequest,
        {"documents": [{"id": str(i), "text": "", "metadata": {f"k{j}": {} for j in range(190)}} for i in range(256)]},
    ),
    "256 documents with 190 unknown fields": (
        IndexRequest,
        {"documents": [{"id": str(i), "text": "", **{f"k{j}": 1 for j in range(190)}} for i in range(256)]},
    ),
    "a list of 100,000 lists in metadata": (
        IndexRequest,
        {"documents": [{"id": "a", "text": "", "metadata": {"k": [[]] * 99_000}}]},
    ),
    "32 filters of 3,000 wrong values": (
        SearchRequest,
        {"query": "a", "filter": {"all": [{"field": "a", "op": "in", "value": [{}] * 3_000}] * 32}},
    ),
    "a filter of 150 negations": (SearchRequest, {"query": "a", "filter": negated(150)}),
    "a filter of 20 lists of 20 lists": (
        SearchRequest,
        {"query": "a", "filter": {"all": [{"any": [{"all": [{}] * 20}] * 20}] * 20}},
    ),
    "32,768 stages five deep with one id": (SearchRequest, piped(fuses(5, id="a"))),
    "100,000 weights": (SearchRequest, piped({"kind": "fuse", "weights": [[]] * 99_000, "inputs": []})),
    "90,000 stages": (SearchRequest, piped(*[{"kind": "fuse"}] * 90_000)),
}


def wide(model: type[BaseModel]) -> Iterator[object]:
    """Every field with 65,000 wrong items, and with 1,000 wrong keys."""
    for name in model.model_fields:
        items: tuple[object, ...] = ({}, [], 1, "a", None)
        for item in items:
            yield {name: [item] * 65_000}
        yield {name: {f"k{place}": [] for place in range(1_000)}}
    yield {f"k{place}": 1 for place in range(1_000)}


def faults(model: type[BaseModel], value: object) -> list[str]:
    try:
        model.model_validate(value)
    except ValidationError as error:
        return [validation_message(item, model) for item in error.errors(include_url=False)]
    return []


@pytest.mark.parametrize("model", MODELS)
def test_a_list_of_wrong_items_gives_a_bounded_number_of_faults(model: type[BaseModel]) -> None:
    for value in wide(model):
        started = time.process_time()
        assert len(faults(model, value)) <= 2_100
        assert time.process_time() - started < 0.25


@pytest.mark.parametrize("name", DEEP)
def test_nested_faults_are_bounded_too(name: str) -> None:
    model, value = DEEP[name]
    started = time.process_time()
    assert len(faults(model, value)) <= 2_100
    assert time.process_time() - started < 0.25


def test_the_product_of_retrieves_and_query_length_is_bounded() -> None:
    both = {"kind": "fuse", "inputs": [fuses(1), fuses(1)]}
    assert faults(SearchRequest, {**piped(both), "query": "a" * 4_096}) == []
    assert faults(SearchRequest, {**piped(LEG), "query": "a" * 16_384}) == []
    (fault,) = faults(SearchRequest, {**piped(both), "query": "a" * 4_097})
    assert "16 retrieves of a query of 4097 characters" in fault


@pytest.mark.parametrize(
    ("model", "value", "words"),
    [
        (IndexRequest, {"documents": [{"text": "a"}]}, "Field required"),
        (IndexRequest, {"documents": [{"id": "a"}]}, "must have a title or a text"),
        (IndexRequest, {"documents": [{"id": i, "text": ""} for i in "abb"]}, "documents.2: its id 'b'"),
        (IndexRequest, {"documents": []}, "must have 1 to 256 items, not 0"),
        (
            IndexRequest,
            {"documents": [{"id": "a", "text": "", "metadata": {"b": {}}}]},
            "must be a text, a number, true or false, or",
        ),
        (
            IndexRequest,
            {"documents": [{"id": "a", "text": "", "body": "b"}]},
            "there is no such field; there are: id, title, text, metadata",
        ),
        (SearchRequest, {"query": "a", "filter": {"all": {"field": "a"}}}, "must be a list"),
        (IndexRequest, {"documents": [{"id": "a", "text": "", "metadata": []}]}, "must be an object"),
        (IndexRequest, [{"id": "a"}], "must be an object with: documents"),
        (IndexRequest, {"documents": ["a"]}, "must be an object with: id, title, text, metadata"),
        (Condition, {"field": "a", "op": "eq", "value": {}}, "must be a text, a number, true or false, or a list"),
        (Condition, {"field": "a", "op": "eq", "value": "\ud800"}, "value: must not contain lone surrogates"),
        (Condition, {"field": "a", "op": "in", "value": ["\ud800"]}, "value: must not contain lone surrogates"),
        (ScoreRequest, {"query": "a", "passages": ["\ud800"]}, "must not contain lone surrogates"),
        (
            BeginCollection,
            {"presets": ["bm25"]},
            "Input should be 'beir', 'anserini-flat', 'anserini-multifield', 'doc2query' or 'deepct'",
        ),
        (
            SearchRequest,
            piped({"kind": "fuse", "inputs": [LEG, {**LEG, "depth": 3}]}),
            "there is no such field; there are: kind, id, backend, preset, exact, beam, top, on_failure",
        ),
        (
            SearchRequest,
            piped(LEG, {"kind": "cut", "top": 1, "n": 3}),
            "there is no such field; there are: kind, id, top",
        ),
        (SearchRequest, piped({**LEG, "id": "a"}, {"kind": "cut", "top": 1, "id": "a"}), "these are not: a"),
        (SearchRequest, piped({**LEG, "id": "total"}), "the id 'total' is that of another timing"),
        (SearchRequest, piped({**LEG, "id": "gateway.wait"}), "the id 'gateway.wait' is that of another timing"),
        (SearchRequest, piped(LEG, {"kind": "cut", "top": 1, "id": "include"}), "the id 'include' is that of another"),
        (SearchRequest, piped(fuses(3)), "there are more than 100, inputs of fuses among them"),
    ],
)
def test_one_fault_gives_one_message_that_says_what_is_right(model: type[BaseModel], value: object, words: str) -> None:
    (fault,) = faults(model, value)
    assert words in fault


def test_a_given_id_must_differ_from_implicit_ones() -> None:
    assert faults(SearchRequest, piped({**LEG, "id": "cut-2"}, {"kind": "cut", "top": 1})) == [
        "stages: ids must be unique, these are not: cut-2"
    ]
