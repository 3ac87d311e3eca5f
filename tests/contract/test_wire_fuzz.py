"""Whatever is sent to a route of the gateway's, the answer is never a 5xx, and its order is never wrong."""

import asyncio
import json
from collections.abc import Iterator
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.backends import DOCUMENTS, Stack, opened_stack

# Anything JSON can carry, among it what Python's json writes though JSON has no word for it (NaN, Infinity).
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
)


def mostly(good: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    """Good nine times of ten: a body that is wrong everywhere is refused for its first fault and tests little."""
    return st.integers(0, 9).flatmap(lambda dice: anything if dice == 0 else good)


queries = st.sampled_from(["fruit trees", "the of", "yellow", "a\x00", "é", "\ud800", " ", "x" * 17_000]) | st.text()
retrieves = st.fixed_dictionaries(
    {"kind": st.just("retrieve"), "backend": mostly(st.sampled_from(["lexical", "dense", "reranker", "none"]))},
    optional={
        "top": mostly(st.integers(1, 1000)),
        "preset": mostly(st.sampled_from(["beir", "anserini-flat", "other"])),
        "exact": mostly(st.booleans()),
        "beam": mostly(st.integers(0, 10_001)),
        "on_failure": st.sampled_from(["skip", "fail"]),
        "id": mostly(st.sampled_from(["a", "b", "retrieve-1"])),
    },
)
weights = st.lists(st.floats(0, 1e6) | st.floats(), max_size=3)


def fuses(inputs: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.fixed_dictionaries(
        {"kind": st.just("fuse"), "inputs": st.lists(inputs, min_size=1, max_size=3)},
        optional={
            "method": st.sampled_from(["rrf", "weighted"]),
            "normalisation": mostly(st.sampled_from(["min-max", "z-score", "theoretical-min"])),
            "k": mostly(st.integers(0, 100)),
            "weights": mostly(weights),
        },
    )


sources = st.recursive(retrieves, fuses, max_leaves=6)
later = st.fixed_dictionaries(
    {"kind": st.sampled_from(["rerank", "cut", "boost"])},
    optional={"top": mostly(st.integers(1, 20)), "weight": mostly(st.floats(0, 1)), "on_failure": st.just("skip")},
)
pipelines = st.builds(
    lambda source, rest: {"name": "x", "stages": [source, *rest]}, mostly(sources), st.lists(later, max_size=3)
)
conditions = st.fixed_dictionaries(
    {"field": mostly(st.sampled_from(["kind", "year"])), "op": st.sampled_from(["eq", "in", "gte", "lte", "exists"])},
    optional={"value": scalars | st.lists(scalars, max_size=3)},
)
facets = st.fixed_dictionaries(
    {"field": mostly(st.sampled_from(["kind", "year"]))},
    optional={
        "top": mostly(st.integers(0, 1001)),
        "ranges": mostly(st.lists(st.dictionaries(st.sampled_from(["from", "to", "until"]), scalars), max_size=3)),
    },
)
searches = st.fixed_dictionaries(
    {},
    optional={
        "query": mostly(queries),
        "facets": mostly(st.lists(facets, max_size=2)),
        "total": mostly(st.booleans()),
        "sort": mostly(st.dictionaries(st.sampled_from(["field", "order"]), st.sampled_from(["year", "asc", "up"]))),
        "pipeline": mostly(st.sampled_from(["bm25", "hybrid", "hybrid-rerank", "nope"]) | pipelines),
        "top": mostly(st.integers(-1, 1001)),
        "filter": mostly(st.fixed_dictionaries({"all": st.lists(conditions, max_size=2)})),
        "exclude_ids": mostly(st.lists(st.sampled_from([d["id"] for d in DOCUMENTS]) | st.text(), max_size=11)),
        "include": mostly(st.lists(st.sampled_from(["title", "text", "metadata", "vector"]), max_size=4)),
        "explain": mostly(st.booleans()),
        "more": st.just(1),
    },
)


class Driven:
    """A stack on a loop of its own: hypothesis calls plain functions."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.context = opened_stack()
        self.stack: Stack = self.loop.run_until_complete(self.context.__aenter__())

    def close(self) -> None:
        self.loop.run_until_complete(self.context.__aexit__(None, None, None))
        self.loop.close()

    def post(self, path: str, body: object) -> httpx.Response:
        headers = {"content-type": "application/json"}
        content = json.dumps(body).encode()
        return self.loop.run_until_complete(self.stack.client.post(path, content=content, headers=headers))


@pytest.fixture(scope="module")
def driven() -> Iterator[Driven]:
    driven = Driven()
    yield driven
    driven.close()


LOOSE = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@LOOSE
@given(body=mostly(searches))
def test_no_search_body_is_a_5xx_and_every_answer_is_in_order(driven: Driven, body: object) -> None:
    answer = driven.post("/v1/collections/demo/search", body)
    assert answer.status_code < 500, answer.text
    if answer.status_code == 200:
        scores = [hit["score"] for hit in answer.json()["hits"]]
        assert scores == sorted(scores, reverse=True)
    else:
        assert answer.json()["detail"]


documents = st.fixed_dictionaries(
    {"id": mostly(st.text(max_size=10))},
    optional={
        "title": mostly(st.text(max_size=20)),
        "text": mostly(st.text(st.characters(), max_size=40)),
        "metadata": mostly(st.dictionaries(st.text(max_size=5), scalars | st.lists(st.text(max_size=3), max_size=2))),
    },
)
BODIES = {
    "/documents": st.fixed_dictionaries({"documents": mostly(st.lists(documents, max_size=3))}),
    "/documents/get": st.fixed_dictionaries({"ids": mostly(st.lists(st.text(st.characters()), max_size=4))}),
    "/documents/delete": st.fixed_dictionaries({"ids": mostly(st.lists(st.text(st.characters()), max_size=4))}),
}


@pytest.mark.parametrize("path", ["/documents", "/documents/get", "/documents/delete"])
@settings(LOOSE, max_examples=40)
@given(data=st.data())
def test_no_body_about_documents_is_a_5xx(driven: Driven, path: str, data: st.DataObject) -> None:
    answer = driven.post(f"/v1/collections/demo{path}", data.draw(mostly(BODIES[path])))
    assert answer.status_code < 500, answer.text


names = st.text(st.characters(), min_size=1, max_size=12) | st.sampled_from(["demo@1", "..", "%2e%2e", "demo%00"])


@settings(LOOSE, max_examples=60)
@given(name=names, action=st.sampled_from(["search", "publish", "documents/get"]))
def test_no_name_of_a_collection_is_a_5xx(driven: Driven, name: str, action: str) -> None:
    quoted = quote(name.encode(errors="surrogatepass"), safe="%.@")
    answer = driven.post(f"/v1/collections/{quoted}/{action}", {"query": "a", "ids": ["a"]})
    assert answer.status_code < 500, answer.text
