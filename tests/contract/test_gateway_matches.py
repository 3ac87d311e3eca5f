"""Counts of a search through the gateway; real services."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.real_stack import RealStack, real_stack

SHOP: list[dict[str, object]] = [
    {"id": "kettle", "title": "Kettle", "text": "Boils water.", "metadata": {"kind": "kitchen", "year": 2021}},
    {"id": "teapot", "title": "Teapot", "text": "For loose tea.", "metadata": {"kind": "kitchen", "year": 2018}},
    {"id": "lamp", "title": "Lamp", "text": "Warm light, no water.", "metadata": {"kind": "office", "year": 2022}},
]
DECLARED = {"presets": ["beir", "anserini-flat"], "metadata": {"kind": "keyword", "year": "number"}}
DENSE = {"name": "mine", "stages": [{"kind": "retrieve", "backend": "dense"}]}
HYBRID = {
    "name": "both",
    "stages": [
        {
            "kind": "fuse",
            "inputs": [
                {"kind": "retrieve", "backend": "dense"},
                {"kind": "retrieve", "backend": "lexical", "preset": "anserini-flat", "on_failure": "skip"},
            ],
        }
    ],
}
KIND = [{"field": "kind"}]


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[RealStack]:
    async with real_stack(tmp_path) as stack:
        await stack.load(SHOP, **DECLARED)
        yield stack


async def answered(stack: RealStack, **asked: object) -> dict[str, Any]:
    answer = await stack.post("/search", **{"query": "water", "pipeline": "bm25", **asked})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.parametrize("pipeline", ["bm25", DENSE, HYBRID])
async def test_all_that_share_a_word_are_counted_on_every_pipeline(stack: RealStack, pipeline: object) -> None:
    years = {"field": "year", "ranges": [{"from": 2000, "to": 2021}, {"from": 2021}]}
    found = await answered(stack, pipeline=pipeline, top=1, total=True, facets=[{"field": "kind", "top": 1}, years])
    assert found["matches"] == {
        "total": 2,
        "facets": {
            "kind": {"values": [{"value": "kitchen", "count": 1}]},
            "year": {"ranges": [{"from": 2000, "to": 2021, "count": 0}, {"from": 2021, "count": 2}]},
        },
    }
    assert len(found["hits"]) == 1
    assert found["degraded"] == []
    assert found["timings_ms"].keys() >= {"matches", "matches.count"}


async def test_filters_and_excluded_ids_are_not_counted(stack: RealStack) -> None:
    kitchen = {"all": [{"field": "kind", "op": "eq", "value": "kitchen"}]}
    for narrowed in ({"filter": kitchen}, {"exclude_ids": ["lamp"]}):
        found = await answered(stack, pipeline=DENSE, facets=KIND, **narrowed)
        assert found["matches"] == {"facets": {"kind": {"values": [{"value": "kitchen", "count": 1}]}}}


async def test_an_answer_without_counts_has_none(stack: RealStack) -> None:
    found = await answered(stack)
    assert "matches" not in found
    assert "matches" not in found["timings_ms"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"facets": [{"field": "colour"}]}, "facets: the field colour is not declared for this collection; declared"),
        ({"facets": [{"field": "year", "ranges": [{}]}]}, "must have from, to or both"),
        ({"facets": [{"field": "year", "top": 3, "ranges": [{"to": 1}]}]}, "top is for values"),
        ({"facets": [*KIND, *KIND]}, "kind is there twice"),
    ],
)
async def test_facets_that_do_not_fit_are_refused(stack: RealStack, wrong: dict[str, object], said: str) -> None:
    for pipeline in ("bm25", DENSE):
        answer = await stack.post("/search", query="water", pipeline=pipeline, **wrong)
        assert answer.status_code == 422
        assert said in answer.text


async def test_a_count_that_fails_leaves_the_hits_and_says_so(stack: RealStack) -> None:
    assert (await stack.lexical.delete("/v1/collections/c@1")).is_success
    found = await answered(stack, pipeline=DENSE, total=True)
    assert found["hits"]
    assert "matches" not in found
    [degraded] = found["degraded"]
    assert (degraded["stage"], degraded["reason"], degraded["done"], degraded["of"]) == ("matches", "refused", 0, 1)
    assert "lexical: it does not hold c@1" in degraded["detail"]
