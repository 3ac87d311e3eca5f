"""A retriever of LlamaIndex whose nodes come from a gateway, and a postprocessor that re-ranks nodes."""

import asyncio
from typing import Any

from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode

from retrieval_client import Client, Reranker
from retrieval_client.adapters import metadata_of, passage


class GatewayRetriever(BaseRetriever):  # type: ignore[misc]  # LlamaIndex is not installed where types are checked
    """Searches a collection. A document is a node with the document's metadata, and its title as `hit-title`."""

    def __init__(
        self,
        client: Client,
        collection: str,
        similarity_top_k: int = 4,
        filter: dict[str, Any] | None = None,
        pipeline: str | None = None,
        **of_base: Any,
    ) -> None:
        super().__init__(**of_base)
        self.client, self.collection, self.similarity_top_k = client, collection, similarity_top_k
        self.filter, self.pipeline = filter, pipeline

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        answer = self.client.search(
            self.collection,
            query_bundle.query_str,
            top=self.similarity_top_k,
            filter=self.filter,  # type: ignore[arg-type]  # of the caller; the gateway checks it
            pipeline=self.pipeline,
            include=["title", "text", "metadata"],
        )
        return [
            NodeWithScore(node=TextNode(id_=hit.id, text=hit.text or "", metadata=metadata_of(hit)), score=hit.score)
            for hit in answer.hits
        ]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


class RerankerPostprocessor(BaseNodePostprocessor):  # type: ignore[misc]
    """Sorts nodes by how well title and text answer the query, and keeps the `top_n` best, or all."""

    reranker: Reranker
    top_n: int | None = None

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if query_bundle is None:
            raise ValueError("re-ranking needs the query: pass query_str or query_bundle")
        texts = [passage(node.metadata, node.node.get_content(MetadataMode.NONE)) for node in nodes]
        ranked = self.reranker.rerank(query_bundle.query_str, texts, top=self.top_n)
        return [NodeWithScore(node=nodes[index].node, score=score) for index, score in ranked]
