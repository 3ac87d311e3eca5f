"""The dense service with passages: a document's best passage counts. Over HTTP, on Edge and on the double of Qdrant."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from evaluator.client.client import GatewayClient, connected
from evaluator.report.evaluation import ingest_step
from evaluator.runs.run_folder import RunFolder
from services.chassis.settings.configuration import ConfigurationError
from services.contracts.passages import Passages
from services.dense.app import build_app
from services.dense.settings import DenseSettings
from tests.contract.test_dense_on_qdrant import serving
from tests.support.models import ENCODER, fetched
from tests.support.opened_client import opened_client
from tests.support.processes import free_port
from tests.support.real_stack import real_stack
from tests.support.small_runs import planned

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


def service(directory: Path, **settings: object) -> AbstractAsyncContextManager[httpx.AsyncClient]:
    kept = {"directory": directory, "encoder": "hashing", "passages": PASSAGES, **settings}
    return opened_client(build_app(DenseSettings.model_validate(kept)))


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
        async with service(tmp_path / str(cut), **model, passages=PASSAGES if cut else "off") as client:
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


async def test_a_document_may_come_with_one_vector_and_one_of_several_passages_has_none_to_read(
    client: httpx.AsyncClient,
) -> None:
    (read,) = (await client.post(f"{PATH}/vectors", json={"ids": ["chain", "long"]})).json()["vectors"]
    assert read["id"] == "chain"
    given = {"id": "given", "text": LONG, "vectors": {"dense": read["vector"]}}
    assert (await index(client, [given]))["encoded"] == 0
    (held,) = (await client.post(f"{PATH}/vectors", json={"ids": ["given"]})).json()["vectors"]
    assert held["vector"] == read["vector"]
    found = dict(await search(client, "Oil the chain of the bicycle."))
    assert found["given"] == found["chain"]


async def test_a_generation_of_another_cut_has_to_be_built_anew(tmp_path: Path) -> None:
    async with service(tmp_path) as client:
        await client.put("/v1/collections/notes@1", json={})
    for other, named in (("off", "(none)"), ({"tokens": 64, "overlap": 8}, "tokens=64 overlap=8")):
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
        ({"passages": {"tokens": 64, "overlap": 33}}, "auto, off or, with an overlap of at most half"),
    ],
)
def test_settings_that_do_not_go_together_are_refused_by_name(settings: Mapping[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        DenseSettings.model_validate({"passages": PASSAGES, **settings})


@pytest.mark.parametrize(
    "one_vector",
    [
        {"store": "elasticsearch", "elasticsearch_url": "http://127.0.0.1:9200"},
        {"store": "qdrant", "qdrant_url": "http://127.0.0.1:6333", "quantisation": "int8"},
        {"encoder": "tei", "api_url": "http://127.0.0.1:8080", "model": "theirs"},
        {"passages": "off"},
    ],
)
def test_documents_are_cut_at_what_the_model_reads_unless_they_have_one_vector(one_vector: dict[str, object]) -> None:
    assert DenseSettings().passages_of(256) == Passages(tokens=256, overlap=64)
    assert DenseSettings.model_validate(one_vector).passages_of(256) is None


async def test_more_tokens_than_the_model_reads_are_refused_at_start(tmp_path: Path) -> None:
    models = fetched(ENCODER).parent
    with pytest.raises(ConfigurationError, match=r"DENSE_PASSAGES\.tokens: .* reads 256; set at most that, not 257"):
        async with service(tmp_path, encoder="onnx", models=models, passages={"tokens": 257}):
            pass


async def test_a_load_tells_once_what_the_model_does_not_read_or_know(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = {"encoder": "onnx", "models": fetched(ENCODER).parent, "passages": "off"}
    pipeline = {"name": "mine", "stages": [{"kind": "retrieve", "backend": "dense"}]}
    experiment = planned(tmp_path, pipelines=[pipeline], collection="c")
    texts = {"d1": "word " * 508, "short": "Oil the chain.", "runes": "ᚠᚢᚦ ᚨᚱᚲ ᚷᚹᚺ"}
    lines = [json.dumps({"_id": identity, "text": text}) for identity, text in texts.items()]
    (tmp_path / "shop" / "corpus.jsonl").write_text("\n".join(lines))
    folder = RunFolder.create(tmp_path / "runs", experiment)

    @asynccontextmanager
    async def gateway(**changed: object) -> AsyncIterator[GatewayClient]:
        builders = {"dense": lambda one, clock: build_app(one.model_copy(update={**model, **changed}), clock)}
        async with (
            real_stack(tmp_path, builders=builders, refresh_s=0.05) as stack,
            connected("http://stack", stack.into_gateway) as client,
        ):
            yield client

    async with gateway() as client:
        await ingest_step(client, folder)
        said = capsys.readouterr().err
        assert "1 of 3 documents are longer than 256 tokens; dense does not read 50% of their words" in said
        assert "1 of 3 documents consist to 60% of pieces that the model of dense does not know" in said
        again = await ingest_step(client, RunFolder.create(tmp_path / "runs", experiment))
        assert (again.backends["dense"].unchanged, "longer" in capsys.readouterr().err) == (3, False)
    async with gateway(passages="auto") as client:  # as after an upgrade
        anew = await ingest_step(client, RunFolder.create(tmp_path / "runs", experiment))
        said = capsys.readouterr().err
        assert (anew.generation, anew.backends["dense"].encoded, "longer" in said) == ("c@2", 3, False)
        assert "Loading c anew, beside what is live: dense: c@1 was made with passages: (none)" in said
