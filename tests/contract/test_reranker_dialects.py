"""The re-ranker as clients written for Cohere, Jina and Text Embeddings Inference find it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cohere
import httpx
import pytest

from services.reranker.app import build_app
from services.reranker.settings import RerankerSettings
from tests.support.keys import bearing, made_keys
from tests.support.models import CROSS_ENCODER, fetched
from tests.support.opened_client import opened_client
from tests.support.served import served
from tests.support.vendor_faults import Sentence, not_json, overloaded, too_large, too_late

OVERLAP = "overlap@000000000000"
QUERY = "red bicycle"
DOCUMENTS = ["a car", "a red bicycle", "a red car", "another car"]
# By index: one word of two, both, none; equal ones as they were sent.
BEST_FIRST = [(1, 1.0), (2, 0.5), (0, 0.0), (3, 0.0)]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch, served(build_app(RerankerSettings(scorer="overlap"))) as url:
        patch.setenv("NO_PROXY", "127.0.0.1")
        yield url


@pytest.fixture
def v1(url: str) -> cohere.Client:
    return cohere.Client("any key", base_url=url, max_retries=0)


@pytest.fixture
def v2(url: str) -> cohere.ClientV2:
    return cohere.ClientV2("any key", base_url=url, max_retries=0)


@pytest.fixture
def plain(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
        yield client


def pairs(results: list[Any]) -> list[tuple[int, float]]:
    return [(one.index, one.relevance_score) for one in results]


def test_a_client_of_cohere_v1_gets_its_documents_best_first(v1: cohere.Client) -> None:
    answer = v1.rerank(model="rerank-english-v3.0", query=QUERY, documents=DOCUMENTS)
    assert pairs(answer.results) == BEST_FIRST
    assert all(one.document is None for one in answer.results)
    assert answer.id
    assert answer.meta is not None
    assert answer.meta.billed_units is not None
    assert answer.meta.billed_units.search_units == 1


def test_a_client_of_cohere_v2_gets_its_documents_best_first(v2: cohere.ClientV2) -> None:
    answer = v2.rerank(model="rerank-v3.5", query=QUERY, documents=DOCUMENTS, max_tokens_per_doc=10_000)
    assert pairs(answer.results) == BEST_FIRST
    assert answer.meta is not None
    assert answer.meta.api_version is not None
    assert answer.meta.api_version.version == "2"


def test_the_model_that_answered_is_named_when_another_was_asked_for(v2: cohere.ClientV2, url: str) -> None:
    other = v2.rerank(model="rerank-v3.5", query=QUERY, documents=DOCUMENTS).meta
    own = v2.rerank(model="overlap", query=QUERY, documents=DOCUMENTS).meta
    assert other is not None
    assert own is not None
    assert other.warnings == [f"The model rerank-v3.5 is not served here; {OVERLAP} scored these documents."]
    assert own.warnings is None
    answer = httpx.post(f"{url}/v2/rerank", json={"model": "x", "query": "a", "documents": ["b"]}, trust_env=False)
    assert answer.headers["x-model"] == OVERLAP


def test_a_model_with_pinned_weights_is_that_one_or_an_error(v1: cohere.Client, v2: cohere.ClientV2) -> None:
    assert v2.rerank(model=OVERLAP, query=QUERY, documents=DOCUMENTS).results
    for client in (v1, v2):
        with pytest.raises(cohere.NotFoundError) as caught:
            client.rerank(model="overlap@111111111111", query=QUERY, documents=DOCUMENTS)
        assert OVERLAP in caught.value.body["message"]


def test_top_n_cuts_and_documents_come_back_as_they_were_sent(v1: cohere.Client) -> None:
    documents: list[str | dict[str, str]] = [
        {"text": "a car", "id": "c"},
        {"text": "a red bicycle", "id": "b"},
        "a red car",
    ]
    answer = v1.rerank(model="m", query=QUERY, documents=documents, top_n=2, return_documents=True)
    assert [one.index for one in answer.results] == [1, 2]
    assert [one.document.model_dump() for one in answer.results if one.document] == [
        {"text": "a red bicycle", "id": "b"},
        {"text": "a red car"},
    ]
    assert len(v1.rerank(model="m", query=QUERY, documents=documents, top_n=99).results) == 3


def test_rank_fields_say_what_is_scored(v1: cohere.Client) -> None:
    documents = [{"title": "a car", "text": "red bicycle"}, {"title": "red", "text": "a bicycle"}]
    answer = v1.rerank(model="m", query=QUERY, documents=documents, rank_fields=["title"], max_chunks_per_doc=3)
    assert pairs(answer.results) == [(1, 0.5), (0, 0.0)]
    both = v1.rerank(model="m", query=QUERY, documents=documents, rank_fields=["title", "text"])
    assert pairs(both.results) == [(0, 1.0), (1, 1.0)]


def test_a_client_of_jina_finds_model_and_usage(plain: httpx.Client) -> None:
    asked = {"model": "jina-reranker-v2-base-multilingual", "query": QUERY, "documents": DOCUMENTS, "top_n": 1}
    answer = plain.post("/v1/rerank", json=asked | {"return_documents": True}, headers={"authorization": "Bearer x"})
    body = answer.json()
    assert body["model"] == OVERLAP
    assert body["usage"] == {"total_tokens": 4 * 2 + 2 + 3 + 3 + 2}
    assert body["results"] == [{"index": 1, "relevance_score": 1.0, "document": {"text": "a red bicycle"}}]


def test_jina_and_vllm_may_ask_for_the_cut_that_happens_anyway_and_for_no_other(plain: httpx.Client) -> None:
    asked = {"query": QUERY, "documents": DOCUMENTS}
    results = plain.post("/v1/rerank", json=asked).json()["results"]
    for same in ({"truncation": True, "truncate_prompt_tokens": -1}, {"truncate_prompt_tokens": 8_192}):
        assert plain.post("/v1/rerank", json=asked | same).json()["results"] == results
    for other in ({"truncation": False}, {"truncate_prompt_tokens": 1}):
        refused = plain.post("/v1/rerank", json=asked | other)
        assert (refused.status_code, next(iter(other)) in refused.json()["message"]) == (400, True)


def test_a_client_of_tei_gets_a_bare_list(plain: httpx.Client) -> None:
    asked = {"query": QUERY, "texts": DOCUMENTS}
    answer = plain.post("/rerank", json=asked)
    assert answer.json() == [{"index": index, "score": score} for index, score in BEST_FIRST]
    assert answer.headers["x-model"] == OVERLAP
    told = plain.post("/rerank", json=asked | {"return_text": True, "raw_scores": True, "truncate": True}).json()
    assert told[0] == {"index": 1, "score": 1.0, "text": "a red bicycle"}


def test_tei_refuses_what_it_may_not_cut(plain: httpx.Client) -> None:
    asked = {"query": QUERY, "texts": ["short", "long " * 9_000]}
    refused = plain.post("/rerank", json=asked | {"truncate": False})
    assert (refused.status_code, refused.json()["error_type"]) == (413, "Validation")
    assert "texts.1" in refused.json()["error"]
    assert plain.post("/rerank", json=asked).status_code == 200


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"documents": []}, "documents"),
        ({"documents": ["a"] * 1_001}, "documents"),
        ({"query": " "}, "query"),
        ({"top_n": 0}, "top_n"),
        ({"max_tokens_per_doc": 10}, "max_tokens_per_doc: must be at least"),
    ],
)
def test_a_bad_request_is_cohere_s_bad_request(v2: cohere.ClientV2, asked: dict[str, Any], said: str) -> None:
    with pytest.raises(cohere.BadRequestError) as caught:
        v2.rerank(**({"model": "m", "query": QUERY, "documents": DOCUMENTS} | asked))
    assert said in caught.value.body["message"]


@pytest.mark.parametrize(
    ("path", "asked", "place"),
    [
        ("/v1/rerank", {"documents": ["a", {"text": "b", "note": "\ud800"}], "return_documents": True}, "documents.1"),
        ("/v2/rerank", {"documents": ["a"], "model": "\ud800"}, "model"),
        ("/rerank", {"texts": ["a", "\ud800"], "return_text": True}, "texts.1"),
    ],
)
def test_what_no_answer_could_carry_back_is_refused_by_its_place(
    plain: httpx.Client, path: str, asked: dict[str, Any], place: str
) -> None:
    body = json.dumps({"query": QUERY} | asked).encode()  # escaped, as a client that cut an emoji in two would
    answer = plain.post(path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert "lone surrogates" in answer.text
    assert place in answer.text


def cohere_or_jina(answer: httpx.Response) -> str:
    body = answer.json()
    assert body["message"] == body["detail"]
    return str(body["message"])


SENTENCES: dict[str, Sentence] = {
    "/v1/rerank": cohere_or_jina,
    "/v2/rerank": lambda answer: str(answer.json()["message"]),
    "/rerank": lambda answer: str(answer.json()["error"]),
}


async def full_service(client: httpx.AsyncClient, path: str) -> httpx.Response:
    body = {"texts": ["b"]} if path == "/rerank" else {"documents": ["b"], "model": "any"}
    return await overloaded(client, path, "work", query="a", **body)


@pytest.mark.parametrize("path", SENTENCES)
async def test_every_fault_is_told_in_the_vendors_own_shape(path: str) -> None:
    small = RerankerSettings(scorer="overlap", max_in_flight=1, max_waiting=0, max_body_bytes=1_024)
    async with opened_client(build_app(small)) as client:
        full = await full_service(client, path)
        late = await too_late(client, path)
        large = await too_large(client, path)
        bad = await not_json(client, path)
        unknown = await client.post(path, json={"query": "a", "surprise": 1})
    assert [one.status_code for one in (full, late, large, bad)] == [429, 504, 413, 400]
    assert unknown.status_code == (422 if path == "/rerank" else 400)
    assert int(full.headers["retry-after"]) >= 1
    assert "surprise" in SENTENCES[path](unknown)
    for answer in (full, late, large, bad):
        assert SENTENCES[path](answer)
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-request-id"]


def test_relevance_is_the_sigmoid_of_the_models_own_score() -> None:
    documents = ["Bread dough rests twice.", "Tighten and loosen spokes until the rim runs straight.", "", "A wheel."]
    query = "how to true a bent wheel"
    with served(build_app(RerankerSettings(models=fetched(CROSS_ENCODER).parent))) as url:
        answer = cohere.ClientV2("any key", base_url=url).rerank(model="rerank-v3.5", query=query, documents=documents)
        with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
            scores = client.post("/v1/score", json={"query": query, "passages": documents}).json()["scores"]
            raw = client.post("/rerank", json={"query": query, "texts": documents, "raw_scores": True}).json()
            jina = client.post("/v1/rerank", json={"query": query, "documents": documents}).json()
    order = sorted(range(4), key=lambda place: -scores[place])
    assert [one.index for one in answer.results] == [one["index"] for one in raw] == order
    assert [one["score"] for one in raw] == pytest.approx([scores[place] for place in order], abs=1e-6)
    for one in answer.results:
        assert 0 < one.relevance_score < 1
        assert one.relevance_score == pytest.approx(1 / (1 + 2.718281828459045 ** -scores[one.index]), abs=1e-6)
    # [CLS] query [SEP] document [SEP] four times: 3 special tokens and 7 of the query each, and the documents' own.
    assert jina["usage"]["total_tokens"] > 4 * (3 + 7)


def test_clients_of_cohere_jina_and_tei_send_a_key_as_their_own_docs_say(tmp_path: Path) -> None:
    keys = made_keys(tmp_path)
    app = build_app(RerankerSettings(scorer="overlap", keys_file=keys.file))
    with served(app) as url:
        right, wrong = keys.secrets["search"], "a key of cohere's"
        v1 = cohere.Client(right, base_url=url, max_retries=0)
        v2 = cohere.ClientV2(right, base_url=url, max_retries=0)
        assert pairs(v1.rerank(model="m", query=QUERY, documents=DOCUMENTS).results) == BEST_FIRST
        assert pairs(v2.rerank(model="m", query=QUERY, documents=DOCUMENTS).results) == BEST_FIRST
        with pytest.raises(cohere.UnauthorizedError) as refused:
            cohere.ClientV2(wrong, base_url=url, max_retries=0).rerank(model="m", query=QUERY, documents=DOCUMENTS)
        assert "not known here" in refused.value.body["message"]
        with pytest.raises(cohere.ForbiddenError):
            cohere.Client(keys.secrets["index"], base_url=url, max_retries=0).rerank(
                model="m", query=QUERY, documents=DOCUMENTS
            )
        # Jina and TEI have no client of their own: their docs show plain requests.
        jina, tei = {"model": "m", "query": QUERY, "documents": DOCUMENTS}, {"query": QUERY, "texts": DOCUMENTS}
        for path, body, told in (("/v1/rerank", jina, "detail"), ("/rerank", tei, "error")):
            sent = [httpx.post(url + path, json=body, headers=bearing(key), trust_env=False) for key in (right, wrong)]
            assert [answer.status_code for answer in sent] == [200, 401]
            assert "not known here" in sent[1].json()[told]


def test_a_key_above_its_rate_or_without_the_scope_is_told_so_in_each_vendors_own_shape(tmp_path: Path) -> None:
    keys = made_keys(tmp_path)
    bodies: dict[str, dict[str, Any]] = {
        "/v2/rerank": {"model": "m", "query": QUERY, "documents": DOCUMENTS},
        "/v1/rerank": {"model": "m", "query": QUERY, "documents": DOCUMENTS},
        "/rerank": {"query": QUERY, "texts": DOCUMENTS},
    }
    slow = {path: keys.add(f"slow {path}", "search", per_second=0.1) for path in bodies}
    with (
        served(build_app(RerankerSettings(scorer="overlap", keys_file=keys.file))) as url,
        httpx.Client(base_url=url, trust_env=False) as client,
    ):
        for path, body in bodies.items():
            assert client.post(path, json=body, headers=bearing(slow[path])).status_code == 200
            often = client.post(path, json=body, headers=bearing(slow[path]))
            lacking = client.post(path, json=body, headers=bearing(keys.secrets["index"]))
            assert (often.status_code, lacking.status_code) == (429, 403)
            assert "asks too often" in said(path, often)
            assert "scope search" in said(path, lacking)
            assert int(often.headers["retry-after"]) >= 1
        once = cohere.ClientV2(slow["/v2/rerank"], base_url=url, max_retries=0)
        with pytest.raises(cohere.TooManyRequestsError):
            once.rerank(model="m", query=QUERY, documents=DOCUMENTS)


def said(path: str, answer: httpx.Response) -> str:
    """Returns the sentence of a refusal, and raises KeyError where the vendor's shape has none."""
    shapes = {"/v2/rerank": "message", "/v1/rerank": "detail", "/rerank": "error"}
    return str(answer.json()[shapes[path]])
