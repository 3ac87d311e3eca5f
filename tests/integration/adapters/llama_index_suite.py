"""The adapters of LlamaIndex, which has no tests of its own for a retriever or a postprocessor."""

import os

import pytest
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import NodeWithScore, TextNode

from retrieval_client import Client, Reranker, RetrievalError
from retrieval_client.adapters.llama_index import GatewayRetriever, RerankerPostprocessor

KEY = os.environ["GATEWAY_API_KEY"]


def retriever(**options):
    return GatewayRetriever(Client(os.environ["GATEWAY"], key=KEY), "c", pipeline="bm25", **options)


def reranked(**options):
    return RerankerPostprocessor(reranker=Reranker(os.environ["RERANKER"], key=KEY), **options)


def node(identity, text, **metadata):
    return NodeWithScore(node=TextNode(id_=identity, text=text, metadata=metadata), score=9.0)


async def test_a_node_has_its_id_text_title_and_score():
    [hit] = retriever(similarity_top_k=1).retrieve("word 7")
    assert (hit.node.node_id, hit.node.text, hit.node.metadata) == ("d07", "word 7", {"hit-title": ""})
    assert hit.score > 0
    assert await retriever(similarity_top_k=1).aretrieve("word 7") == [hit]


def test_a_documents_own_metadata_replaces_nothing_of_the_hit():
    [hit] = retriever(similarity_top_k=1).retrieve("samovar")
    assert (hit.node.node_id, hit.metadata["hit-title"], hit.metadata["title"]) == ("own", "Samovar", "its title")
    assert reranked().postprocess_nodes([node("a", "water"), hit], query_str="samovar")[0].node == hit.node


def test_a_refusal_is_raised():
    with pytest.raises(RetrievalError, match="absent"):
        GatewayRetriever(Client(os.environ["GATEWAY"], key=KEY), "absent", pipeline="bm25").retrieve("word")


async def test_a_postprocessor_keeps_the_best_nodes():
    nodes = [node("a", "a car"), node("b", "of steel", title="A red bicycle"), node("c", "a red car")]
    kept = reranked(top_n=2).postprocess_nodes(nodes, query_str="red bicycle")
    assert [(hit.node.node_id, hit.score) for hit in kept] == [("b", 1.0), ("c", 0.5)]
    assert await reranked(top_n=2).apostprocess_nodes(nodes, query_str="red bicycle") == kept
    assert reranked().postprocess_nodes([], query_str="red bicycle") == []
    with pytest.raises(ValueError, match="query_str"):
        reranked().postprocess_nodes(nodes)


def test_a_query_engine_uses_both():
    engine = RetrieverQueryEngine(
        retriever(similarity_top_k=5), get_response_synthesizer(llm=MockLLM()), node_postprocessors=[reranked(top_n=1)]
    )
    [source] = engine.query("word 7").source_nodes
    assert (source.node.node_id, source.score) == ("d07", 1.0)
