"""Highlights of a search through the gateway; real services."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.real_stack import RealStack, real_stack

NOTES: list[dict[str, object]] = [
    {"id": "brake", "title": "Worn brakes", "text": "Brake pads wear. Look at both of the pads.", "metadata": {"n": 1}},
    {"id": "wheel", "title": "Wheels", "text": "A wheel wobbles."},
]
DENSE = {"name": "mine", "stages": [{"kind": "retrieve", "backend": "dense"}]}


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[RealStack]:
    async with real_stack(tmp_path) as stack:
        await stack.load(NOTES)
        yield stack


async def hits(stack: RealStack, **more: object) -> dict[str, dict[str, Any]]:
    answer = await stack.post("/search", **{"query": "pad", "pipeline": "bm25", **more})
    assert answer.status_code == 200, answer.text
    assert answer.json()["degraded"] == []
    return {hit["id"]: hit for hit in answer.json()["hits"]}


async def test_a_hit_shows_where_words_of_the_query_stand(stack: RealStack) -> None:
    found = (await hits(stack, query="braking pad", highlight=1))["brake"]
    assert found["highlights"] == {
        "title": [{"start": 0, "text": "Worn brakes", "matches": [[5, 11]]}],
        "text": [{"start": 0, "text": "Brake pads wear.", "matches": [[0, 5], [6, 10]]}],
    }
    assert "text" not in found
    assert "title" not in found
    assert "highlights" not in (await hits(stack))["brake"]


async def test_what_vectors_alone_found_is_highlighted_too_and_parts_are_included_beside(stack: RealStack) -> None:
    found = await hits(stack, query="wheel wobble", pipeline=DENSE, highlight=3, include=["title", "metadata"])
    assert [one["text"] for one in found["wheel"]["highlights"]["text"]] == ["A wheel wobbles."]
    assert found["brake"]["highlights"] == {"title": [], "text": []}
    assert found["brake"]["metadata"] == {"n": 1}
    assert found["brake"]["title"] == "Worn brakes"


@pytest.mark.parametrize(
    ("presets", "pipeline", "expected"),
    [
        (["german", "english"], {"backend": "lexical"}, ["Häuser"]),
        (["german", "english"], {"backend": "lexical", "preset": "english"}, ["Haus"]),
        (["english", "german"], {"backend": "lexical", "preset": "german"}, ["Häuser"]),
        (["german", "english"], {"backend": "dense"}, ["Häuser"]),
    ],
)
async def test_words_are_marked_in_the_language_of_the_preset_that_found_them(
    stack: RealStack, presets: list[str], pipeline: dict[str, str], expected: list[str]
) -> None:
    declared = [{"name": one, "match": "flat", "k1": 0.9, "b": 0.4, "language": one} for one in presets]
    assert (await stack.begin(build="second", presets=declared)).is_success
    held = [{"id": "a", "text": "Alte Häuser. Ein Haus aus Holz."}, {"id": "b", "text": "Am Fluss."}]
    assert (await stack.send(held, build="second")).json()["complete"]
    assert (await stack.post("/publish", build="second")).is_success
    mine = {"name": "mine", "stages": [{"kind": "retrieve", **pipeline}]}
    fragments = (await hits(stack, query="Haus", pipeline=mine, highlight=1))["a"]["highlights"]["text"]
    assert [one["text"][start:end] for one in fragments for start, end in one["matches"]] == expected


async def test_the_search_page_marks_the_words_that_found_a_document_and_no_stop_words(stack: RealStack) -> None:
    text = "At the start, the wheel. " * 20 + "The pads of the brake and the lever <wear>: हिन्दी."
    assert (await stack.send([{"id": "long", "text": text}])).is_success
    asked = {"query": "the worn braking pad हिन्दी of a", "collection": "c", "left": "bm25", "right": "", "top": "10"}
    page = await stack.client.get("/", params=asked)
    assert page.status_code == 200, page.text
    marks = re.findall(r"<mark>(.*?)</mark>", page.text)
    assert sorted(marks) == ["Brake", "brake", "pads", "pads", "हिन्दी"]
    assert "… The <mark>pads</mark> of the <mark>brake</mark> and the lever &lt;wear&gt;:" in page.text
