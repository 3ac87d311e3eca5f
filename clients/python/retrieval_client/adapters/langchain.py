"""A retriever of LangChain whose documents come from a gateway, and a compressor that re-ranks documents."""

import asyncio
from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun, Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict

from retrieval_client import Client, Reranker
from retrieval_client.adapters import metadata_of, passage


class GatewayRetriever(BaseRetriever):  # type: ignore[misc]  # LangChain is not installed where types are checked
    """Searches a collection. A document has its own metadata, and its title as `hit-title`.

    `scores` adds its score as `hit-score`; LangChain then takes one document of two queries for two. `k`, `filter` and
    `pipeline` can also be given to a call: `retriever.invoke("tea", k=3)`.
    """

    model_config = ConfigDict(extra="forbid")

    client: Client
    collection: str
    k: int = 4
    filter: dict[str, Any] | None = None
    pipeline: str | None = None
    scores: bool = False

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        answer = self.client.search(
            self.collection,
            query,
            top=kwargs.pop("k", self.k),
            filter=kwargs.pop("filter", self.filter),
            pipeline=kwargs.pop("pipeline", self.pipeline),
            include=["title", "text", "metadata"],
            **kwargs,
        )
        return [
            Document(id=hit.id, page_content=hit.text or "", metadata=metadata_of(hit, scored=self.scores))
            for hit in answer.hits
        ]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        return await asyncio.to_thread(
            self._get_relevant_documents, query, run_manager=run_manager.get_sync(), **kwargs
        )


class RerankerCompressor(BaseDocumentCompressor):  # type: ignore[misc]
    """Sorts documents by how well title and text answer the query, and keeps the `top_n` best, or all.

    `relevance_score` in a document's metadata is the re-ranker's.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    reranker: Reranker
    top_n: int | None = None

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """Returns copies of the documents, best first."""
        texts = [passage(document.metadata, document.page_content) for document in documents]
        return [
            documents[index].model_copy(update={"metadata": {**documents[index].metadata, "relevance_score": score}})
            for index, score in self.reranker.rerank(query, texts, top=self.top_n)
        ]
