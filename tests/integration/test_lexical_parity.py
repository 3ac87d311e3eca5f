"""Figures of the lexical service on real collections: on Elasticsearch those published, to the 4th decimal; on the
embedded engine close to them."""

import asyncio
import json
import math
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import httpx
import pytest

from services.lexical.app import build_app
from services.lexical.settings import LexicalSettings
from tests.support.opened_client import opened_client
from tests.support.scratch import scratch

DATASETS = Path(__file__).resolve().parents[3] / "shared" / "datasets"
PRESETS = ("beir", "anserini-flat", "anserini-multifield")
# nDCG@10 and Recall@100. Published, but for what was only measured, on Elasticsearch 8.19.0 (the others equal it).
SCIFACT = {"beir": (0.6906, 0.9192), "anserini-flat": (0.6789, 0.9253), "anserini-multifield": (0.6647, 0.9076)}
NFCORPUS = {"beir": (0.3273, 0.2481), "anserini-flat": (0.3218, 0.2457), "anserini-multifield": (0.3254, 0.25)}
CRANFIELD = {"beir": (0.4388, 0.7628), "anserini-flat": (0.4108, 0.7415), "anserini-multifield": (0.4302, 0.7567)}
CACM = {"beir": (0.4885, 0.6522), "anserini-flat": (0.4754, 0.6424), "anserini-multifield": (0.4748, 0.643)}
FIGURES = {"scifact": SCIFACT, "nfcorpus": NFCORPUS, "cranfield": CRANFIELD, "cacm": CACM}
# Promised was 0.015; the largest of these twelve differences is 0.0023.
EMBEDDED_WITHIN = 0.005

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not DATASETS.is_dir(), reason="the collections are not at ../shared/datasets"),
]


def ndcg_at_10(ranked: Sequence[str], grades: Mapping[str, int]) -> float:
    """Linear gain, log2(rank + 1), the ideal list cut at 10."""

    def discounted(gains: Sequence[int]) -> float:
        return sum(gain / math.log2(place + 2) for place, gain in enumerate(gains[:10]))

    ideal = discounted(sorted(grades.values(), reverse=True))
    return discounted([grades.get(document, 0) for document in ranked]) / ideal if ideal else 0.0


def recall_at_100(ranked: Sequence[str], grades: Mapping[str, int]) -> float:
    relevant = {document for document, grade in grades.items() if grade > 0}
    return len(relevant.intersection(ranked[:100])) / len(relevant) if relevant else 0.0


def rows(name: str, file: str) -> list[dict[str, str]]:
    with (DATASETS / name / file).open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@cache
def judgments(name: str) -> dict[str, dict[str, int]]:
    grades: defaultdict[str, dict[str, int]] = defaultdict(dict)
    with (DATASETS / name / "qrels" / "test.tsv").open(encoding="utf-8") as lines:
        next(lines)
        for line in lines:
            query, document, grade = line.split()
            grades[query][document] = int(grade)
    return grades


async def loaded(client: httpx.AsyncClient, name: str) -> str:
    """The path of a generation that holds the whole collection. Skips where the collection is not there."""
    if not (DATASETS / name).is_dir():
        pytest.skip(f"{name} is not at ../shared/datasets")
    path = f"/v1/collections/{name}@1"
    (await client.put(path, json={"presets": PRESETS})).raise_for_status()
    corpus = [{"id": row["_id"], "title": row["title"], "text": row["text"]} for row in rows(name, "corpus.jsonl")]
    for start in range(0, len(corpus), 256):
        answer = await client.post(f"{path}/documents", json={"documents": corpus[start : start + 256]})
        assert answer.json()["errors"] == []
    assert (await client.post(f"{path}/finish", json={})).json()["documents"] == len(corpus)
    return path


async def figures(client: httpx.AsyncClient, path: str, name: str, preset: str, depth: int) -> tuple[float, float]:
    """nDCG@10 and Recall@100 over every judged query, in the order of the answers."""
    queries = {row["_id"]: row["text"] for row in rows(name, "queries.jsonl")}
    grades = judgments(name)
    ndcg: list[float] = []
    recall: list[float] = []
    beside = asyncio.Semaphore(4)

    async def measure(query: str) -> None:
        request = {"query": queries[query], "preset": preset, "top": depth}
        async with beside:
            answer = await client.post(f"{path}/search", json=request)
        assert answer.status_code == 200, answer.text
        ranked = [hit["id"] for hit in answer.json()["hits"]]
        ndcg.append(ndcg_at_10(ranked, grades[query]))
        recall.append(recall_at_100(ranked, grades[query]))

    await asyncio.gather(*(measure(query) for query in grades))
    return math.fsum(ndcg) / len(grades), math.fsum(recall) / len(grades)


@pytest.mark.parametrize("name", ["scifact", "nfcorpus"])
async def test_elasticsearch_gives_the_published_figures(elasticsearch_url: str, name: str) -> None:
    prefix = f"test-{uuid.uuid4().hex[:12]}-"
    settings = LexicalSettings(engine="elasticsearch", elasticsearch_url=elasticsearch_url, index_prefix=prefix)
    async with opened_client(build_app(settings), timeout=None) as client:
        path = await loaded(client, name)
        try:
            measured = {preset: await figures(client, path, name, preset, 1_000) for preset in PRESETS}
        finally:
            await client.delete(path)
    assert {preset: (round(ndcg, 4), round(recall, 4)) for preset, (ndcg, recall) in measured.items()} == FIGURES[name]


@pytest.mark.parametrize("name", FIGURES)
async def test_the_embedded_engine_stays_close_to_elasticsearch(name: str) -> None:
    with scratch() as directory:
        async with opened_client(build_app(LexicalSettings(directory=directory)), timeout=None) as client:
            path = await loaded(client, name)
            measured = {preset: (await figures(client, path, name, preset, 100))[0] for preset in PRESETS}
    expected = {preset: ndcg for preset, (ndcg, _) in FIGURES[name].items()}
    assert measured == pytest.approx(expected, abs=EMBEDDED_WITHIN)
