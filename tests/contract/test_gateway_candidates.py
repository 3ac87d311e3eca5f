"""Counts, least scores and sorts of a search agree with its hits on every pipeline; real services without models."""

import math
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from fastapi import FastAPI

from services.dense.app import build_app as build_dense
from services.dense.settings import DenseSettings
from services.late_interaction.app import build_app as build_late_interaction
from services.late_interaction.settings import LateInteractionSettings
from services.lexical.app import build_app as build_lexical
from services.lexical.settings import LexicalSettings
from services.reranker.app import build_app as build_reranker
from services.reranker.settings import RerankerSettings
from tests.support.backends import Stack, opened_stack

QUERY = "brake chain saddle"
WORDS = ("brake", "chain", "saddle", "wheel", "bell", "lamp", "pump", "tyre")
COUNT = 150  # more than a retrieve of the pipelines gives
WORDS_ALONE = ("bm25", "bm25-rerank")
PIPELINES = (*WORDS_ALONE, "dense", "hybrid", "hybrid-colbert", "hybrid-rerank")
FACETS = [{"field": "kind"}, {"field": "year", "ranges": [{"from": 2000, "to": 2010}, {"from": 2010}]}]
Hit = tuple[str, float]


def drawn() -> dict[str, dict[str, Any]]:
    draw = Random(3)
    return {
        f"d{one:03}": {"kind": draw.choice("abc")} | ({"year": draw.randint(1995, 2020)} if one % 7 else {})
        for one in range(COUNT)
    }


METADATA = drawn()


@dataclass(frozen=True)
class Served:
    """A real service in the place of a stub."""

    family: str
    app: Callable[[], FastAPI]


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[Stack]:
    made: dict[str, FastAPI] = {
        "lexical": build_lexical(LexicalSettings(directory=tmp_path / "lexical")),
        "dense": build_dense(DenseSettings(directory=tmp_path / "dense", encoder="hashing")),
        "late_interaction": build_late_interaction(
            LateInteractionSettings(directory=tmp_path / "late", encoder="hashing")
        ),
    }
    stores: Any = {name: Served(name, lambda app=app: app) for name, app in made.items()}  # type: ignore[misc]
    rerankers: Any = {"reranker": Served("reranker", lambda: build_reranker(RerankerSettings(scorer="overlap")))}
    async with opened_stack(stores=stores, rerankers=rerankers, ingested=False) as stack:
        draw, path, build = Random(5), "/v1/collections/demo", {"build": "first"}
        documents = [
            {"id": one, "text": " ".join(draw.choices(WORDS, k=5)), "metadata": metadata}
            for one, metadata in METADATA.items()
        ]
        declared = {"metadata": {"kind": "keyword", "year": "number"}, "backends": [*made], **build}
        assert (await stack.client.put(path, json=declared)).status_code == 200
        sent = await stack.client.post(f"{path}/documents", json={"documents": documents, **build})
        assert sent.json()["complete"], sent.text
        assert (await stack.client.post(f"{path}/publish", json=build)).is_success
        yield stack


async def answered(stack: Stack, pipeline: str, **asked: object) -> dict[str, Any]:
    answer = await stack.search(QUERY, pipeline, **asked)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    assert found["degraded"] == []
    return found


def pairs(hits: list[dict[str, Any]]) -> list[Hit]:
    return [(hit["id"], hit["score"]) for hit in hits]


def counted(relation: str, hits: list[Hit]) -> dict[str, object]:
    held = [METADATA[one] for one, _ in hits]
    kinds = sorted(Counter(one["kind"] for one in held).items(), key=lambda item: (-item[1], item[0]))
    ranges = [{**bounds, "count": 0} for bounds in ({"from": 2000, "to": 2010}, {"from": 2010})]
    for bounds in ranges:
        low, high = bounds["from"], bounds.get("to", math.inf)
        bounds["count"] = sum(low <= one["year"] < high for one in held if "year" in one)
    values = [{"value": kind, "count": count} for kind, count in kinds]
    return {
        "relation": relation,
        "total": len(hits),
        "facets": {"kind": {"values": values}, "year": {"ranges": ranges}},
    }


async def candidates(stack: Stack, pipeline: str) -> list[Hit]:
    """What the last stage gave, for a search that asks for no more than hits."""
    return pairs([*(await answered(stack, pipeline, explain="candidates"))["candidates"].values()][-1]["ranking"])


@pytest.mark.parametrize("pipeline", PIPELINES)
async def test_counts_are_of_the_hits_that_all_pages_have(stack: Stack, pipeline: str) -> None:
    ranking, alone = await candidates(stack, pipeline), pipeline in WORDS_ALONE
    whole = await answered(stack, pipeline, top=1_000, total=True, facets=FACETS)
    hits = pairs(whole["hits"])
    assert whole["matches"] == counted("all" if alone else "candidates", hits)
    assert (hits[: len(ranking)] == ranking, len(hits) > len(ranking)) == (True, alone)
    first = await answered(stack, pipeline, top=3, total=True, facets=FACETS)
    assert (first["matches"], pairs(first["hits"])) == (whole["matches"], hits[:3])
    last = await answered(stack, pipeline, top=3, offset=len(hits) - 2, total=True)
    assert (pairs(last["hits"]), last["page"]["more"]) == (hits[-2:], False)


@pytest.mark.parametrize("pipeline", PIPELINES)
async def test_a_least_score_and_a_sort_are_of_the_candidates(stack: Stack, pipeline: str) -> None:
    ranking = await candidates(stack, pipeline)
    least = ranking[len(ranking) // 2][1]
    above = [hit for hit in ranking if hit[1] >= least]
    found = await answered(
        stack, pipeline, top=1_000, min_score=least, total=True, facets=FACETS, include=["metadata"], explain=True
    )
    assert (pairs(found["hits"]), found["matches"]) == (above, counted("candidates", above))
    assert [hit["metadata"] for hit in found["hits"]] == [METADATA[one] for one, _ in above]
    assert pairs((await answered(stack, pipeline, top=4, min_score=least))["hits"]) == above[:4]
    none = await answered(stack, pipeline, min_score=1e9, total=True, facets=FACETS, sort={"field": "year"})
    assert (none["hits"], none["matches"]) == ([], counted("candidates", []))
    for order, sign in (("asc", 1), ("desc", -1)):
        sort = {"field": "year", "order": order}
        for kept, asked in ((ranking, {}), (above, {"min_score": least})):
            by_year = sorted(kept, key=lambda hit: (sign * METADATA[hit[0]].get("year", sign * math.inf), hit[0]))
            found = await answered(stack, pipeline, sort=sort, total=True, facets=FACETS, top=1_000, **asked)
            assert (pairs(found["hits"]), found["matches"]) == (by_year, counted("candidates", by_year))
            page = await answered(stack, pipeline, sort=sort, offset=7, top=5, **asked)
            assert pairs(page["hits"]) == by_year[7:12]
            assert page["page"] == {"offset": 7, "candidates": len(kept), "more": len(kept) > 12}
            assert [hit["rank"] for hit in page["hits"]] == list(range(8, 13))
