"""Searches without a query: the gateway lists documents; real services."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.real_stack import RealStack, real_stack

DECLARED = {"metadata": {"kind": "keyword", "year": "number"}}
SHOP: list[dict[str, object]] = [
    {"id": "teapot", "title": "Teapot", "text": "For tea.", "metadata": {"kind": "kitchen", "year": 2018}},
    {"id": "lamp", "title": "Lamp", "text": "Warm light.", "metadata": {"kind": "office", "year": 2022}},
    {"id": "sofa", "title": "Sofa", "text": "Soft."},
    {"id": "kettle", "title": "Kettle", "text": "Boils water.", "metadata": {"kind": "kitchen", "year": 2022}},
]
NEWEST = {"field": "year", "order": "desc"}


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[RealStack]:
    async with real_stack(tmp_path) as stack:
        await stack.load(SHOP, **DECLARED)
        yield stack


async def answered(stack: RealStack, **asked: object) -> dict[str, Any]:
    answer = await stack.post("/search", **asked)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    assert found["degraded"] == []
    return found


def ids(found: dict[str, Any]) -> list[str]:
    return [hit["id"] for hit in found["hits"]]


@pytest.mark.parametrize("asked", [{}, {"query": ""}, {"pipeline": "absent"}, {"pipeline": "bm25"}])
async def test_documents_are_listed_by_id_whatever_the_pipeline(stack: RealStack, asked: dict[str, object]) -> None:
    found = await answered(stack, **asked)
    assert [(hit["id"], hit["rank"], hit["score"]) for hit in found["hits"]] == [
        ("kettle", 1, 0.0),
        ("lamp", 2, 0.0),
        ("sofa", 3, 0.0),
        ("teapot", 4, 0.0),
    ]
    assert found["pipeline"]["name"] == "browse"
    assert found["timings_ms"].keys() >= {"browse", "browse.browse", "total"}


async def test_a_sorted_list_has_pages_and_documents_without_the_field_come_last(stack: RealStack) -> None:
    assert ids(await answered(stack, sort=NEWEST)) == ["kettle", "lamp", "teapot", "sofa"]
    assert ids(await answered(stack, sort={"field": "year"}, top=2)) == ["teapot", "kettle"]
    second = await answered(stack, sort=NEWEST, offset=1, top=2)
    assert [(hit["id"], hit["rank"], hit["score"]) for hit in second["hits"]] == [("lamp", 2, 0.0), ("teapot", 3, 0.0)]
    assert second["page"] == {"offset": 1, "candidates": 4, "more": True}


async def test_what_passes_is_counted_and_included_as_for_a_query(stack: RealStack) -> None:
    kitchen = {"all": [{"field": "kind", "op": "eq", "value": "kitchen"}]}
    found = await answered(
        stack, filter=kitchen, include=["title"], highlight=2, explain=True, total=True, facets=[{"field": "kind"}]
    )
    assert found["hits"][0] == {
        "id": "kettle",
        "rank": 1,
        "score": 0.0,
        "title": "Kettle",
        "highlights": {"title": [], "text": []},
        "stages": {"browse": {"rank": 1, "score": 0.0}},
    }
    assert found["matches"] == {
        "relation": "all",
        "total": 2,
        "facets": {"kind": {"values": [{"value": "kitchen", "count": 2}]}},
    }
    everything = await answered(stack, exclude_ids=["lamp"], total=True, top=1, explain="candidates")
    assert everything["matches"] == {"relation": "all", "total": 3}
    assert [one["id"] for one in everything["candidates"]["browse"]["ranking"]] == ["kettle", "sofa", "teapot"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            {"sort": {"field": "colour"}},
            "sort: the field colour is not declared for this collection; declared are: kind",
        ),
        ({"sort": {"field": "kind"}}, "sort: kind is a keyword; documents can be sorted by a number or a date"),
        ({"sort": {"field": "year", "order": "down"}}, "sort.order"),
        ({"query": "tea", "pipeline": "bm25", "sort": {"field": "kind"}}, "sort: kind is a keyword"),
        ({"min_score": 0.5}, "min_score: documents are listed without scores"),
    ],
)
async def test_a_sort_that_does_not_fit_is_refused(stack: RealStack, wrong: dict[str, object], said: str) -> None:
    answer = await stack.post("/search", **wrong)
    assert (answer.status_code, said in answer.text) == (422, True), answer.text
