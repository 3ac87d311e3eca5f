"""The encoder as clients written for OpenAI and Text Embeddings Inference find it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pytest
from huggingface_hub import InferenceClient
from huggingface_hub.errors import HfHubHTTPError

from services.dense.app import build_app
from services.dense.settings import DenseSettings
from tests.support.keys import made_keys
from tests.support.models import ENCODER, fetched
from tests.support.opened_client import opened_client
from tests.support.served import served
from tests.support.vendor_faults import Sentence, not_json, overloaded, too_large, too_late

HASHING = "hashing@none"
TEXTS = ["oil the chain", "bleed the brake", "true the wheel"]
GOLDEN = Path(__file__).parents[1] / "golden" / "minilm_embeddings.json"


def settings(directory: Path, **more: Any) -> DenseSettings:
    return DenseSettings(**{"directory": directory, "encoder": "hashing", **more})


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    app = build_app(settings(tmp_path_factory.mktemp("dense")))
    with pytest.MonkeyPatch.context() as patch, served(app) as url:
        patch.setenv("NO_PROXY", "127.0.0.1")
        yield url


def client_of(url: str) -> openai.OpenAI:
    return openai.OpenAI(api_key="any key", base_url=f"{url}/v1", max_retries=0)


@pytest.fixture
def client(url: str) -> openai.OpenAI:
    return client_of(url)


@pytest.fixture
def tei(url: str) -> InferenceClient:
    return InferenceClient(model=f"{url}/embed", token="any key")


def test_a_client_of_openai_gets_one_vector_a_text_and_the_tokens_that_were_read(client: openai.OpenAI) -> None:
    answer = client.embeddings.create(model="text-embedding-3-small", input=TEXTS, user="me")
    assert [one.index for one in answer.data] == [0, 1, 2]
    assert all(len(one.embedding) == 256 for one in answer.data)
    assert answer.model == HASHING
    assert (answer.usage.prompt_tokens, answer.usage.total_tokens) == (9, 9)


def test_base64_and_numbers_are_the_same_vectors(client: openai.OpenAI) -> None:
    # The client asks for base64 by itself when no format is named, and decodes it.
    coded = client.embeddings.create(model="m", input=TEXTS)
    numbers = client.embeddings.create(model="m", input=TEXTS, encoding_format="float", dimensions=256)
    assert [one.embedding for one in coded.data] == [
        np.asarray(one.embedding, dtype=np.float32).tolist() for one in numbers.data
    ]


def test_a_client_of_tei_gets_a_row_a_text(tei: InferenceClient, client: openai.OpenAI) -> None:
    rows = tei.feature_extraction(TEXTS, normalize=True, truncate=True, truncation_direction="right")
    assert rows.shape == (3, 256)
    assert rows.tolist() == [one.embedding for one in client.embeddings.create(model="m", input=TEXTS).data]


def test_roles_can_be_named(tei: InferenceClient, client: openai.OpenAI) -> None:
    query = tei.feature_extraction(TEXTS[:2], prompt_name="query")
    asked = client.embeddings.create(model="m", input=TEXTS[:2], extra_body={"input_type": "search_query"})
    assert query.tolist() == [one.embedding for one in asked.data]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"input": [1, 2, 3]}, "send texts"),
        ({"input": [[1, 2], [3]]}, "send texts"),
        ({"input": []}, "input"),
        ({"input": ["a", ""]}, "empty"),
        ({"input": ["a"] * 2_049}, "2048"),
        ({"encoding_format": "int8"}, "encoding_format"),
        ({"extra_body": {"surprise": 1}}, "surprise"),
    ],
)
def test_a_bad_request_is_openai_s_bad_request(client: openai.OpenAI, asked: dict[str, Any], said: str) -> None:
    with pytest.raises(openai.BadRequestError, match=said) as caught:
        client.embeddings.create(**({"model": "m", "input": TEXTS} | asked))
    assert caught.value.type == "invalid_request_error"
    assert caught.value.param in {*asked, "surprise"}


@pytest.mark.parametrize(
    ("items", "said"),
    [
        (["tea", ["tea"]], "1: must be a text"),
        (["tea", None], "1: must be a text"),
        (["tea", True], "1: must be a text"),
        (["tea", []], "1: must be a text"),
        (["tea", {"text": "tea"}], "1: must be a text"),
        (["tea", ""], "1: an empty text"),
        (["tea", "\ud800"], "1: must not contain lone surrogates"),
        ([[1, 2], [3]], "0: token ids are another tokenizer's"),
        ([1, 2], "0: token ids are another tokenizer's"),
    ],
)
@pytest.mark.parametrize(("path", "field"), [("/embed", "inputs"), ("/v1/embeddings", "input")])
def test_a_wrong_text_of_a_batch_is_named_by_its_place(
    url: str, path: str, field: str, items: list[object], said: str
) -> None:
    content, headers = json.dumps({field: items}).encode(), {"content-type": "application/json"}
    answer = httpx.post(url + path, content=content, headers=headers, trust_env=False)
    assert answer.status_code in (400, 422)
    assert f"{field}.{said}" in answer.text


def test_another_dimension_than_the_models_is_refused(client: openai.OpenAI, tei: InferenceClient) -> None:
    with pytest.raises(openai.BadRequestError, match="256"):
        client.embeddings.create(model="m", input=TEXTS, dimensions=64)
    with pytest.raises(HfHubHTTPError, match="256"):
        tei.feature_extraction(TEXTS, dimensions=64)


def test_a_model_with_pinned_weights_is_that_one_or_an_error(client: openai.OpenAI) -> None:
    assert client.embeddings.create(model=HASHING, input=TEXTS).data
    with pytest.raises(openai.NotFoundError, match=HASHING) as caught:
        client.embeddings.create(model="hashing@000000000000", input=TEXTS)
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


def test_the_served_model_is_listed_and_can_be_asked_for_by_that_name(client: openai.OpenAI) -> None:
    [listed] = client.models.list().data
    assert (listed.id, listed.object) == (HASHING, "model")
    assert client.embeddings.create(model=listed.id, input=TEXTS).model == listed.id


def test_the_cut_of_the_model_may_be_asked_for_and_another_is_refused(client: openai.OpenAI) -> None:
    plain = client.embeddings.create(model="m", input=TEXTS).data
    for same in ({"truncation": True, "truncate_prompt_tokens": -1}, {"truncate_prompt_tokens": 8_192}):
        assert client.embeddings.create(model="m", input=TEXTS, extra_body=same).data == plain
    for other in ({"truncation": False}, {"truncate_prompt_tokens": 1}):
        with pytest.raises(openai.BadRequestError, match=next(iter(other))):
            client.embeddings.create(model="m", input=TEXTS, extra_body=other)


def test_what_tei_was_not_asked_to_cut_is_refused_and_openai_is_told_of_it(tei: InferenceClient, url: str) -> None:
    long = ["word " * 9_000, "word"]
    with pytest.raises(HfHubHTTPError) as caught:
        tei.feature_extraction(long, truncate=False)
    assert caught.value.response.status_code == 413
    answer = httpx.post(f"{url}/v1/embeddings", json={"input": long}, trust_env=False, timeout=60)
    assert answer.headers["x-truncated-inputs"] == "1"
    assert answer.headers["x-model"] == HASHING
    assert answer.json()["usage"]["prompt_tokens"] == 8_192 + 1


def test_vectors_of_length_1_are_not_stretched_back(tei: InferenceClient) -> None:
    with pytest.raises(HfHubHTTPError, match="normalize"):
        tei.feature_extraction(TEXTS, normalize=False)


SENTENCES: dict[str, Sentence] = {
    "/v1/embeddings": lambda answer: str(answer.json()["error"]["message"]),
    "/embed": lambda answer: str(answer.json()["error"]),
}


@pytest.mark.parametrize("path", SENTENCES)
async def test_every_fault_is_told_in_the_vendors_own_shape(path: str, tmp_path: Path) -> None:
    app = build_app(settings(tmp_path, max_in_flight=1, max_waiting=0, max_body_bytes=1_024))
    async with opened_client(app) as client:
        full = await overloaded(client, path)
        late = await too_late(client, path)
        large = await too_large(client, path)
        bad = await not_json(client, path)
    assert [one.status_code for one in (full, late, large, bad)] == [429, 504, 413, 400]
    assert int(full.headers["retry-after"]) >= 1
    for answer in (full, late, large, bad):
        assert SENTENCES[path](answer)
        assert answer.headers["x-request-id"]
    if path == "/v1/embeddings":
        kinds = [(one.json()["error"]["type"], one.json()["error"]["code"]) for one in (full, late)]
        assert kinds == [("rate_limit_error", "rate_limit_exceeded"), ("server_error", "deadline-exceeded")]


def test_the_real_model_gives_openai_and_tei_the_vectors_of_sentence_transformers(tmp_path: Path) -> None:
    items = [item for item in json.loads(GOLDEN.read_text())["items"] if item["text"]][:4]
    texts = [item["text"] for item in items]
    app = build_app(settings(tmp_path, encoder="onnx", models=fetched(ENCODER).parent))
    with served(app) as url:
        answer = client_of(url).embeddings.create(model="text-embedding-3-small", input=texts)
        rows = InferenceClient(model=f"{url}/embed", token="any key").feature_extraction(texts)
        hello = client_of(url).embeddings.create(model="m", input="hello")
    assert answer.model.startswith("all-MiniLM-L6-v2@")
    assert hello.usage.prompt_tokens == 3  # [CLS] hello [SEP]
    assert rows.tolist() == [one.embedding for one in answer.data]
    assert rows == pytest.approx(np.array([item["embedding"] for item in items]), abs=1e-4)


def test_clients_of_openai_and_tei_send_a_key_as_their_own_docs_say(tmp_path: Path) -> None:
    keys = made_keys(tmp_path)
    app = build_app(settings(tmp_path / "dense", keys_file=keys.file))
    with served(app) as url:
        right, wrong = keys.secrets["search"], "sk-of-openai"
        client = openai.OpenAI(api_key=right, base_url=f"{url}/v1", max_retries=0)
        assert len(client.embeddings.create(model="m", input=TEXTS).data) == 3
        assert InferenceClient(model=f"{url}/embed", token=right).feature_extraction(TEXTS).shape == (3, 256)
        with pytest.raises(openai.AuthenticationError) as refused:
            openai.OpenAI(api_key=wrong, base_url=f"{url}/v1", max_retries=0).embeddings.create(model="m", input=TEXTS)
        assert refused.value.code == "invalid_api_key"
        with pytest.raises(openai.AuthenticationError, match="key"):
            openai.OpenAI(api_key=wrong, base_url=f"{url}/v1", max_retries=0).models.list()
        with pytest.raises(openai.PermissionDeniedError):
            openai.OpenAI(api_key=keys.secrets["index"], base_url=f"{url}/v1", max_retries=0).embeddings.create(
                model="m", input=TEXTS
            )
        with pytest.raises(HfHubHTTPError) as turned_away:
            InferenceClient(model=f"{url}/embed", token=wrong).feature_extraction(TEXTS)
        assert turned_away.value.response.status_code == 401
        assert "key" in turned_away.value.response.json()["error"]
