"""The adapters of LangChain, and LangChain's own tests of a retriever (it has none of a compressor)."""

import os

from langchain_core.documents import Document
from langchain_tests.integration_tests import RetrieversIntegrationTests

from retrieval_client import Client, Reranker
from retrieval_client.adapters.langchain import GatewayRetriever, RerankerCompressor

KEY = os.environ["GATEWAY_API_KEY"]


class TestGatewayRetriever(RetrieversIntegrationTests):  # type: ignore[misc]  # of an environment of its own
    retriever_constructor = GatewayRetriever
    retriever_constructor_params = {
        "client": Client(os.environ["GATEWAY"], key=KEY),
        "collection": "c",
        "pipeline": "bm25",
        "k": 5,
    }
    retriever_query_example = "word"


def retriever(**options):
    return GatewayRetriever(**TestGatewayRetriever.retriever_constructor_params, **options)


def test_a_document_has_its_id_text_and_title():
    [document] = retriever().invoke("word 7", k=1)
    assert (document.id, document.page_content, document.metadata) == ("d07", "word 7", {"hit-title": ""})


def test_a_documents_own_metadata_replaces_nothing_of_the_hit():
    [document] = retriever(scores=True).invoke("samovar", k=1)
    assert (document.id, document.metadata["hit-title"], document.metadata["hit-score"] > 0) == ("own", "Samovar", True)
    assert (document.metadata["title"], document.metadata["score"]) == ("its title", "its score")
    [first, _] = RerankerCompressor(reranker=Reranker(os.environ["RERANKER"], key=KEY)).compress_documents(
        [Document(id="a", page_content="water"), document], "samovar"
    )
    assert first.id == "own"


async def test_one_document_of_two_queries_is_one():
    [first], [second] = retriever().invoke("word 7", k=1), await retriever().ainvoke("7", k=1)
    assert first == second
    assert "hit-score" not in first.metadata


async def test_a_compressor_keeps_the_best_documents_and_their_metadata():
    documents = [
        Document(id="a", page_content="a car", metadata={"year": 1}),
        Document(id="b", page_content="of steel", metadata={"title": "A red bicycle", "year": 2}),
        Document(id="c", page_content="a red car"),
    ]
    best = RerankerCompressor(reranker=Reranker(os.environ["RERANKER"], key=KEY), top_n=2)
    kept = best.compress_documents(documents, "red bicycle")
    assert [(document.id, document.metadata["relevance_score"]) for document in kept] == [("b", 1.0), ("c", 0.5)]
    assert (kept[0].page_content, kept[0].metadata["year"]) == ("of steel", 2)
    assert "relevance_score" not in documents[1].metadata
    assert await best.acompress_documents(documents, "red bicycle") == kept
    assert best.compress_documents([], "red bicycle") == []
