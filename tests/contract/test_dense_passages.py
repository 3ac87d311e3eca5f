"""The dense service with passages: a document's best passage counts. Over HTTP, on Edge and on the double of Qdrant."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from services.chassis.settings.configuration import ConfigurationError
from services.dense.app import build_app
from services.dense.settings import DenseSettings
from tests.contract.test_dense_on_qdrant import free_port, serving
from tests.support.models import ENCODER, fetched

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect")
PASSAGES: Mapping[str, object] = {"tokens": 64, "overlap": 16}
PATH = "/v1/collections/notes@1/documents"
# Some 400 tokens, of which the model reads 256.
LONG = "The wheel runs straight when every spoke has the same tension. " * 30 + "Volcanoes erupt when magma rises."
DOCUMENTS = [
    {"id": "long", "title": "Wheels", "text": LONG},
    {"id": "short", "title": "Mountains", "text": "Rocks fall from high mountains."},
    {"id": "chain", "title": "", "text": "Oil the chain of the bicycle."},
    {"id": "empty", "text": ""},
]


@asynccontextmanager
async def service(directory: Path, **settings: object) -> AsyncIterator[httpx.AsyncClient]:
    kept = {"directory": directory, "encoder": "hashing", "passages": PASSAGES, **settings}
    app = build_app(DenseSettings.model_validate(kept))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://dense") as client:
            yield client


@pytest.fixture(params=["edge", "qdrant"])
async def client(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    port = free_port()
    on_server = {"store": "qdrant", "qdrant_url": f"http://127.0.0.1:{port}"} if request.param == "qdrant" else {}
    async with serving(port), service(tmp_path, **on_server) as client:
        await client.put("/v1/collections/notes@1", json={})
        await index(client, DOCUMENTS)
        yield client


async def index(client: httpx.AsyncClient, documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    answer = await client.post(PATH, json={"documents": documents})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def search(client: httpx.AsyncClient, query: str, **asked: object) -> list[tuple[str, float]]:
    answer = await client.post("/v1/collections/notes@1/search", json={"query": query, **asked})
    assert answer.status_code == 200, answer.text
    return [(hit["id"], hit["score"]) for hit in answer.json()["hits"]]


@pytest.mark.parametrize("query_cache_mb", [0, 1])
async def test_a_sentence_behind_the_models_cut_is_found_and_short_documents_score_as_without(
    tmp_path: Path, query_cache_mb: int
) -> None:
    model = {"encoder": "onnx", "models": fetched(ENCODER).parent, "query_cache_mb": query_cache_mb}
    found: dict[bool, dict[str, float]] = {}
    for cut in (True, False):
        async with service(tmp_path / str(cut), **model, passages=PASSAGES if cut else None) as client:
            await client.put("/v1/collections/notes@1", json={})
            assert (await index(client, DOCUMENTS))["encoded"] == 4
            for exact in (True, False):
                found[cut] = dict(await search(client, "why do volcanoes erupt?", exact=exact))
                assert next(iter(found[cut])) == ("long" if cut else "short")
    for one in ("short", "chain", "empty"):
        assert found[True][one] == pytest.approx(found[False][one], abs=1e-6)


async def test_unchanged_documents_are_not_encoded_again_and_changed_ones_are_replaced(
    client: httpx.AsyncClient,
) -> None:
    assert await index(client, DOCUMENTS) == {"indexed": 0, "unchanged": 4, "errors": [], "encoded": 0}
    filed = [{**one, "metadata": {"topic": "any"}} for one in DOCUMENTS]
    report = await index(client, filed)
    assert (report["indexed"], report["encoded"]) == (4, 0)
    before = (await search(client, "magma"))[0]
    assert (await index(client, [{**filed[0], "text": LONG.replace("magma", "smoke")}]))["encoded"] == 1
    assert before[0] == "long"
    assert dict(await search(client, "magma"))["long"] < before[1]
    await client.post(f"{PATH}/delete", json={"ids": ["long"]})
    assert "long" not in dict(await search(client, "magma"))


async def test_vectors_of_passages_are_neither_given_nor_read(client: httpx.AsyncClient) -> None:
    answer = await client.post(f"{PATH}/vectors", json={"ids": ["chain"]})
    assert answer.status_code == 422, answer.text
    given = {"id": "one", "text": "one", "vectors": {"dense": {"model": "hashing", "dense": [1.0] * 256}}}
    (error,) = (await index(client, [given]))["errors"]
    assert (error["id"], "vector" in error["reason"]) == ("one", True)


async def test_a_generation_of_another_cut_has_to_be_built_anew(tmp_path: Path) -> None:
    async with service(tmp_path) as client:
        await client.put("/v1/collections/notes@1", json={})
    for other, named in ((None, "(none)"), ({"tokens": 64, "overlap": 8}, "tokens=64 overlap=8")):
        async with service(tmp_path, passages=other) as client:
            answer = await client.post("/v1/collections/notes@1/search", json={"query": "magma"})
            assert answer.status_code == 409
            assert f"passages: tokens=64 overlap=16, and passages: {named} is requested" in answer.json()["detail"]


async def test_a_document_of_too_many_passages_is_an_error_of_its_own(client: httpx.AsyncClient) -> None:
    book = {"id": "book", "text": "word " * 300_000}
    report = await index(client, [book, {"id": "page", "text": "a page"}])
    assert (report["indexed"], report["encoded"]) == (1, 1)
    (error,) = report["errors"]
    assert (error["id"], error["retryable"]) == ("book", False)
    assert "6250 passages, and at most 4095" in error["reason"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"store": "elasticsearch", "elasticsearch_url": "http://127.0.0.1:9200"}, "DENSE_STORE=elasticsearch; leave"),
        ({"store": "qdrant", "qdrant_url": "http://127.0.0.1:6333", "quantisation": "int8"}, "DENSE_QUANTISATION=int8"),
        ({"passages": {"tokens": 64, "overlap": 33}}, "0 to 32 is allowed"),
    ],
)
def test_settings_that_do_not_go_together_are_refused_by_name(settings: Mapping[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        DenseSettings.model_validate({"passages": PASSAGES, **settings})


async def test_more_tokens_than_the_model_reads_are_refused_at_start(tmp_path: Path) -> None:
    models = fetched(ENCODER).parent
    with pytest.raises(ConfigurationError, match=r"DENSE_PASSAGES\.tokens: .* reads 256; set at most that, not 257"):
        async with service(tmp_path, encoder="onnx", models=models, passages={"tokens": 257}):
            pass
