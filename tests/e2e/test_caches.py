"""Caches in the open: over real sockets, the gateway's answer says what each backend had cached."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from gateway.app import build_app as build_gateway
from gateway.settings import BackendAddress, GatewaySettings
from services.dense.app import build_app as build_dense
from services.dense.settings import DenseSettings
from services.lexical.app import build_app as build_lexical
from services.lexical.settings import LexicalSettings
from services.reranker.app import build_app as build_reranker
from services.reranker.settings import RerankerSettings
from tests.support.served import served

BUILD = {"build": "first"}
DOCUMENTS = [{"id": f"d{number}", "text": f"oil the chain {number} times"} for number in range(5)]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a gateway whose dense service and re-ranker cache, with DOCUMENTS in `notes`."""
    folder: Path = tmp_path_factory.mktemp("cached")
    apps = {
        "lexical": build_lexical(LexicalSettings(directory=folder / "lexical")),
        "dense": build_dense(DenseSettings(directory=folder / "dense", encoder="hashing", query_cache_mb=1)),
        "reranker": build_reranker(RerankerSettings(scorer="overlap", score_cache_mb=1)),
    }
    with ExitStack() as stack:
        backends = {
            name: BackendAddress.model_validate({"family": name, "url": stack.enter_context(served(app))})
            for name, app in apps.items()
        }
        address = stack.enter_context(served(build_gateway(GatewaySettings(backends=backends))))
        with httpx.Client(base_url=address) as client:
            client.put("/v1/collections/notes", json=BUILD).raise_for_status()
            client.post("/v1/collections/notes/documents", json={**BUILD, "documents": DOCUMENTS}).raise_for_status()
            client.post("/v1/collections/notes/publish", json=BUILD).raise_for_status()
        yield address


def cached(gateway: str, query: str, pipeline: str, **headers: str) -> str | None:
    body = {"query": query, "pipeline": pipeline}
    answer = httpx.post(f"{gateway}/v1/collections/notes/search", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    cached: str | None = answer.headers.get("x-cached-results")
    return cached


def test_an_answer_says_how_many_results_each_backend_had_cached(gateway: str) -> None:
    assert cached(gateway, "chain", "bm25") is None
    assert cached(gateway, "chain", "hybrid-rerank") == "dense=0/1, reranker=0/5"
    assert cached(gateway, "chain", "dense") == "dense=1/1"
    assert cached(gateway, "chain", "hybrid-rerank") == "dense=1/1, reranker=5/5"


def test_a_caller_who_wants_fresh_results_gets_them_from_every_backend(gateway: str) -> None:
    for _ in range(2):
        assert cached(gateway, "oil", "hybrid-rerank", **{"cache-control": "no-store"}) is None
    assert cached(gateway, "oil", "hybrid-rerank") == "dense=0/1, reranker=0/5"


def test_the_gateway_counts_no_cache_of_its_own(gateway: str) -> None:
    assert "cached_results_total{" not in httpx.get(f"{gateway}/metrics").text
