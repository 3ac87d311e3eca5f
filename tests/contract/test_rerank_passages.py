"""Re-ranking long documents by their best passage, as callers of the gateway see it."""

from pathlib import Path

import pytest
from fastapi import FastAPI

from services.contracts.passages import Passages
from services.reranker.app import build_app
from services.reranker.settings import RerankerSettings
from tests.support.backends import Stack, opened_stack
from tests.support.models import CROSS_ENCODER, fetched
from tests.support.reranker_stub import RerankerStub

FIRST = {"kind": "retrieve", "backend": "lexical"}
FILLER = "bread dough rests twice before it is baked and it rises overnight . " * 40
DOCUMENTS = (
    {"id": "bread", "title": "Wheel bread", "text": FILLER},
    {"id": "guide", "title": "Workshop", "text": f"{FILLER} To true a bent wheel, tighten and loosen its spokes."},
)
QUERY = "how to true a bent wheel"


class Served(RerankerStub):
    """The real service, with a model that reads 256 tokens; opened_stack takes it for a stub."""

    def app(self) -> FastAPI:
        return build_app(RerankerSettings(models=fetched(CROSS_ENCODER).parent, threads=1))


def pipeline(**stage: object) -> dict[str, object]:
    return {"name": "mine", "stages": [FIRST, {"kind": "rerank", "weight": 1.0, **stage}]}


async def test_an_answer_far_behind_the_models_limit_is_found_in_passages() -> None:
    async with opened_stack(rerankers={"reranker": Served()}, documents=DOCUMENTS) as stack:
        found = []
        for one in (pipeline(), pipeline(passages={"tokens": 128, "overlap": 32})):
            body = (await stack.search(QUERY, one, explain="candidates", deadline_ms=60_000)).json()
            assert body["degraded"] == []
            found.append(body["candidates"]["rerank-2"]["model_scores"])
        whole, parts = found
        assert whole["guide"] < whole["bread"]
        assert parts["guide"] > max(parts["bread"], whole["guide"])


@pytest.mark.parametrize("skip", [False, True])
async def test_more_than_the_model_reads_is_refused_with_what_is_allowed(skip: bool) -> None:
    said = "split.tokens (in a pipeline, passages.tokens): this model reads parts of 16 to 256 tokens, not 300"
    async with opened_stack(rerankers={"reranker": Served()}) as stack:
        asked = pipeline(passages={"tokens": 300}, on_failure="skip" if skip else "fail")
        answer = await stack.search("fruit", asked)
        if skip:
            [degradation] = answer.json()["degraded"]
            assert said in degradation["detail"]
        else:
            assert answer.status_code == 422
            assert said in answer.json()["detail"]


async def test_the_reranker_is_told_the_passages_and_the_titles(stack: Stack) -> None:
    await stack.search("fruit", pipeline(passages={"tokens": 64, "overlap": 16}))
    await stack.search("fruit", pipeline())
    split, whole = stack.reranker.asked
    assert split.split == Passages(tokens=64, overlap=16)
    titles = [text[:length] for text, length in zip(split.passages, split.title_lengths, strict=True)]
    assert sorted(titles) == ["Apple", "Banana", "Trees"]
    assert set(whole.model_dump()) == {"query", "passages", "partial"}


@pytest.mark.parametrize(
    ("passages", "said"),
    [
        ({"tokens": 8}, "passages.tokens: Input should be greater than or equal to 16"),
        ({"tokens": 64, "overlap": 33}, "passages: overlap: 0 to 32 is allowed, half of tokens (64), not 33"),
        ({"tokens": 64, "stride": 33}, "there is no such field; there are: tokens, overlap"),
    ],
)
async def test_bounds_are_named_in_an_inline_pipeline_and_in_a_file(
    passages: dict[str, int], said: str, tmp_path: Path
) -> None:
    (tmp_path / "bm25.yaml").write_text("name: bm25\nstages: [{kind: retrieve, backend: lexical}]\n")
    async with opened_stack(pipelines=tmp_path) as stack:
        inline = await stack.search("fruit", pipeline(passages=passages))
        (tmp_path / "long.yaml").write_text(
            f"name: long\nstages: [{{kind: retrieve, backend: lexical}}, {{kind: rerank, passages: {passages}}}]\n"
        )
        file = await stack.client.post("/v1/pipelines/reload", json={})
    for answer in (inline, file):
        assert answer.status_code == 422
        assert said in answer.text
