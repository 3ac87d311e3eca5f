"""An encoder that is another server's API: over our own dense service, which speaks both dialects, and its faults."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from services.dense.app import build_app, open_encoder
from services.dense.encoder import DenseEncoder
from services.dense.settings import DenseSettings
from tests.contract.encoder import EncoderSuite
from tests.support.hosted_apis import KEY, OPENAI, ScriptedApi, refusal
from tests.support.models import ENCODER, fetched
from tests.support.opened_client import opened_client
from tests.support.passages import PASSAGES, QUERY, soon
from tests.support.served import served

DOCUMENTS = [{"id": f"d{place}", "text": text} for place, text in enumerate(PASSAGES)]


def hosted(url: str, encoder: str = "openai", **more: Any) -> DenseSettings:
    url = f"{url}/v1" if encoder == "openai" else url
    return DenseSettings(**({"encoder": encoder, "api_url": url, "model": "theirs"} | more))


@asynccontextmanager
async def opened(settings: DenseSettings) -> AsyncIterator[DenseEncoder]:
    encoder = open_encoder(settings)
    try:
        yield encoder
    finally:
        await encoder.close()


@pytest.fixture(scope="module")
def hashing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(build_app(DenseSettings(directory=tmp_path_factory.mktemp("theirs"), encoder="hashing"))) as url:
        yield url


@pytest.fixture(scope="module")
def onnx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    models = fetched(ENCODER).parent
    with served(build_app(DenseSettings(directory=tmp_path_factory.mktemp("theirs"), models=models))) as url:
        yield url


@pytest.mark.integration
@pytest.mark.alone
class TestOpenAI(EncoderSuite):
    @pytest.fixture
    async def encoder(self, onnx: str) -> AsyncIterator[DenseEncoder]:
        async with opened(hosted(onnx, "openai")) as encoder:
            yield encoder


class TestTei(EncoderSuite):
    @pytest.fixture
    async def encoder(self, hashing: str) -> AsyncIterator[DenseEncoder]:
        async with opened(hosted(hashing, "tei")) as encoder:
            yield encoder


@asynccontextmanager
async def service(settings: DenseSettings) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a dense service that holds the generation `c@1`."""
    async with opened_client(build_app(settings), "http://dense/v1/collections/c@1") as client:
        assert (await client.put("http://dense/v1/collections/c@1", json={})).status_code == 200
        yield client


@pytest.mark.parametrize("encoder", ["openai", "tei"])
async def test_a_service_ranks_by_an_api_as_the_service_behind_it_does(
    hashing: str, tmp_path: Path, encoder: str
) -> None:
    rankings = []
    by_api = hosted(hashing, encoder, api_batch=2, query_cache_mb=1)
    for settings in (DenseSettings(encoder="hashing"), by_api):
        async with service(settings.model_copy(update={"directory": tmp_path / settings.encoder})) as client:
            report = (await client.post("/documents", json={"documents": DOCUMENTS})).json()
            assert (report["indexed"], report["encoded"]) == (len(DOCUMENTS), len(DOCUMENTS))
            rankings.append((await client.post("/search", json={"query": QUERY, "top": 10})).json()["hits"])
    own, theirs = rankings
    assert [hit["id"] for hit in theirs] == [hit["id"] for hit in own]
    assert [hit["score"] for hit in theirs] == pytest.approx([hit["score"] for hit in own], abs=1e-6)


async def test_vectors_are_in_the_order_of_the_texts_and_of_length_one() -> None:
    rows = {1: [0, 3e38], 0: [3e-40, 4e-40], 2: [0, 0]}
    api = ScriptedApi(JSONResponse({"data": [{"index": place, "embedding": row} for place, row in rows.items()]}))
    with api.served() as url:
        async with opened(hosted(url, api_dimension=2)) as encoder:
            vectors = await encoder.encode_passages(["a", "b", "c"], soon())
    assert vectors == pytest.approx(np.array([[0.6, 0.8], [0, 1], [0, 0]]), abs=1e-4)  # 3e-40 has few digits


async def test_the_api_gets_model_key_prefixes_and_dimension_and_no_blank_text() -> None:
    api = ScriptedApi()
    with api.served() as url:
        settings = hosted(url, api_key=KEY, api_dimension=2, api_query_prefix="query: ", api_passage_prefix="passage: ")
        async with opened(settings) as encoder:
            await encoder.encode_query("oil", soon())
            blank = await encoder.encode_passages(["", "chain", " \n"], soon())
    sent = {"model": "theirs", "encoding_format": "float", "dimensions": 2}
    assert [body for _, body in api.asked] == [sent | {"input": ["query: oil"]}, sent | {"input": ["passage: chain"]}]
    assert {headers["authorization"] for headers, _ in api.asked} == {f"Bearer {KEY}"}
    assert blank == pytest.approx(np.array([[0, 0], [0.6, 0.8], [0, 0]]))


async def test_a_text_that_the_api_refuses_keeps_no_other_document_from_being_stored(tmp_path: Path) -> None:
    class Fussy(ScriptedApi):
        async def answer(self, request: Request) -> Response:
            texts = (await request.json())["input"]
            return refusal(400, "too long") if any("long" in text for text in texts) else OPENAI.right(len(texts))

    documents = [{"id": f"d{place}", "text": f"{'long' if place in (3, 8) else 'text'} {place}"} for place in range(9)]
    with Fussy().served() as url:
        async with service(hosted(url, api_dimension=2).model_copy(update={"directory": tmp_path})) as client:
            report = (await client.post("/documents", json={"documents": documents})).json()
    assert (report["indexed"], report["encoded"]) == (7, 7)
    assert [one["id"] for one in report["errors"]] == ["d3", "d8"]
    assert all("too long" in one["reason"] and not one["retryable"] for one in report["errors"])


async def test_passages_have_so_many_requests_in_flight_and_a_query_waits_for_none_of_them() -> None:
    api = ScriptedApi()
    with api.served() as url:
        async with opened(hosted(url, api_dimension=2, api_batch=1, api_in_flight=3)) as encoder:
            assert len(await encoder.encode_passages(["chain"] * 20, soon())) == 20
            assert (len(api.asked), api.most_at_once) == (20, 3)
            api.held = "oil"
            passages = asyncio.create_task(encoder.encode_passages(["oil"] * 20, soon()))
            while api.at_once < 3:  # noqa: ASYNC110  # another thread counts
                await asyncio.sleep(0.01)
            await encoder.encode_query("chain", soon())
            assert not passages.done()
            passages.cancel()
