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


async def test_all_that_share_a_word_are_counted_of_a_search_for_words_alone(stack: RealStack) -> None:
    years = {"field": "year", "ranges": [{"from": 2000, "to": 2021}, {"from": 2021}]}
    found = await answered(stack, top=1, total=True, facets=[{"field": "kind", "top": 1}, years])
    assert found["matches"] == {
        "relation": "all",
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
    for pipeline, expected in (("bm25", 1), (DENSE, 2)):
        for narrowed in ({"filter": kitchen}, {"exclude_ids": ["lamp"]}):
            found = await answered(stack, pipeline=pipeline, facets=KIND, **narrowed)
            counts = {"kind": {"values": [{"value": "kitchen", "count": expected}]}}
            assert found["matches"] == {"relation": found["matches"]["relation"], "facets": counts}


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


async def test_without_the_store_hits_and_total_remain_but_nothing_is_sorted(stack: RealStack) -> None:
    assert (await stack.lexical.delete("/v1/collections/c@1")).is_success
    found = await answered(stack, pipeline=DENSE, total=True, facets=KIND)
    assert found["matches"] == {"relation": "candidates", "total": len(found["hits"])}
    [degraded] = found["degraded"]
    assert (degraded["stage"], degraded["reason"], degraded["done"], degraded["of"]) == ("matches", "refused", 0, 1)
    assert "lexical: it does not hold c@1" in degraded["detail"]
    assert "matches" not in await answered(stack, pipeline=DENSE, facets=KIND)
    unsorted = await stack.post("/search", query="water", pipeline=DENSE, sort={"field": "year"})
    assert (unsorted.status_code, "lexical" in unsorted.text) == (409, True), unsorted.text


async def test_candidates_that_the_store_lacks_are_flagged_and_come_last(stack: RealStack) -> None:
    assert (await stack.lexical.post("/v1/collections/c@1/documents/delete", json={"ids": ["teapot"]})).is_success
    found = await answered(stack, pipeline=DENSE, sort={"field": "year"}, facets=KIND, total=True)
    assert [hit["id"] for hit in found["hits"]] == ["kettle", "lamp", "teapot"]
    assert found["matches"]["total"] == 3
    assert [(one["stage"], one["reason"], one["done"], one["of"]) for one in found["degraded"]] == [
        ("sort", "no_document_store", 2, 3),
        ("matches", "no_document_store", 2, 3),
    ]


async def test_nothing_follows_a_cut_and_what_is_cut_is_not_counted(stack: RealStack) -> None:
    cut = {"name": "mine", "stages": [{"kind": "retrieve", "backend": "lexical"}, {"kind": "cut", "top": 1}]}
    found = await answered(stack, pipeline=cut, total=True)
    assert (found["matches"], len(found["hits"])) == ({"relation": "candidates", "total": 1}, 1)
