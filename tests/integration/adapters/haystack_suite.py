"""The adapters of Haystack, which has no tests of its own for a retriever or a ranker."""

import os

import pytest
from haystack import Document, Pipeline
from haystack.utils import Secret

from retrieval_client import RetrievalError
from retrieval_client.adapters.haystack import GatewayRetriever, RerankerRanker


def search_and_rerank(**options):
    pipeline = Pipeline()
    pipeline.add_component("retriever", GatewayRetriever(os.environ["GATEWAY"], "c", pipeline="bm25", **options))
    pipeline.add_component("ranker", RerankerRanker(os.environ["RERANKER"], top_k=1))
    pipeline.connect("retriever", "ranker")
    return pipeline


ASKED = {"retriever": {"query": "word 7", "top_k": 5}, "ranker": {"query": "word 7"}}


async def test_a_pipeline_retrieves_and_reranks():
    pipeline = search_and_rerank()
    [document] = pipeline.run(ASKED)["ranker"]["documents"]
    assert (document.id, document.content, document.meta, document.score) == ("d07", "word 7", {"hit-title": ""}, 1.0)
    assert (await pipeline.run_async(ASKED))["ranker"]["documents"] == [document]


def test_a_documents_own_metadata_replaces_nothing_of_the_hit():
    [document] = GatewayRetriever(os.environ["GATEWAY"], "c", top_k=1, pipeline="bm25").run("samovar")["documents"]
    assert (document.id, document.content, document.meta["hit-title"]) == ("own", "Boils water.", "Samovar")
    assert (document.meta["title"], document.meta["score"]) == ("its title", "its score")
    best = RerankerRanker(os.environ["RERANKER"]).run("samovar", [Document(id="a", content="water"), document])
    assert best["documents"][0].id == "own"


def test_a_pipeline_is_written_and_read_without_its_key(monkeypatch):
    monkeypatch.setenv("MY_KEY", "rsk_secret")
    written = search_and_rerank(filter={"exists": []}, top_k=3, api_key=Secret.from_env_var("MY_KEY")).dumps()
    assert "rsk_secret" not in written
    read = Pipeline.loads(written, allowed_modules=["retrieval_client.adapters.haystack"])
    assert read.dumps() == written
    assert read.get_component("retriever").api_key.resolve_value() == "rsk_secret"
    assert [read.get_component(name).top_k for name in ("retriever", "ranker")] == [3, 1]


def test_a_call_replaces_the_number_and_the_filter():
    retriever = GatewayRetriever(os.environ["GATEWAY"], "c", top_k=7, pipeline="bm25")
    assert len(retriever.run("word")["documents"]) == 7
    assert len(retriever.run("word", top_k=2)["documents"]) == 2
    with pytest.raises(RetrievalError, match="colour"):
        retriever.run("word", filter={"all": [{"field": "colour", "op": "eq", "value": "red"}]})


def test_a_ranker_keeps_the_documents_whole():
    documents = [
        Document(id="a", content="a car", score=9.0),
        Document(id="b", content="of steel", meta={"title": "A red bicycle", "year": 2}, score=8.0),
        Document(id="c", content=None),
    ]
    ranked = RerankerRanker(os.environ["RERANKER"]).run("red bicycle", documents)["documents"]
    assert [(document.id, document.score) for document in ranked] == [("b", 1.0), ("a", 0.0), ("c", 0.0)]
    assert (ranked[0].content, ranked[0].meta["year"], documents[1].score) == ("of steel", 2, 8.0)
    assert RerankerRanker(os.environ["RERANKER"]).run("red bicycle", [])["documents"] == []
