"""A retriever of Haystack whose documents come from a gateway, and a ranker.

Their arguments are attributes, so that Haystack writes them into a pipeline's YAML. It reads that with
`Pipeline.loads(..., allowed_modules=["retrieval_client.adapters.haystack"])`. An awaited pipeline runs them in threads.
"""

from dataclasses import replace
from typing import Any

from haystack import Document, component
from haystack.utils import Secret

from retrieval_client import Client, Reranker
from retrieval_client.adapters import metadata_of, passage

KEY = Secret.from_env_var("GATEWAY_API_KEY", strict=False)


@component
class GatewayRetriever:
    """Searches a collection of the gateway at `url`. `meta` is a document's metadata, with its title as `hit-title`."""

    def __init__(
        self,
        url: str,
        collection: str,
        top_k: int = 10,
        filter: dict[str, Any] | None = None,
        pipeline: str | None = None,
        api_key: Secret | None = KEY,
        ca_file: str | None = None,
    ) -> None:
        self.url, self.collection, self.top_k, self.filter, self.pipeline = url, collection, top_k, filter, pipeline
        self.api_key, self.ca_file = api_key, ca_file
        self._client = Client(url, key=api_key and api_key.resolve_value(), ca_file=ca_file)

    @component.output_types(documents=list[Document])  # type: ignore[untyped-decorator]
    def run(
        self, query: str, top_k: int | None = None, filter: dict[str, Any] | None = None
    ) -> dict[str, list[Document]]:
        """Returns the best documents. `top_k` and `filter` (as the gateway's) replace those of the retriever."""
        answer = self._client.search(
            self.collection,
            query,
            top=self.top_k if top_k is None else top_k,
            filter=self.filter if filter is None else filter,  # type: ignore[arg-type]  # the gateway checks it
            pipeline=self.pipeline,
            include=["title", "text", "metadata"],
        )
        hits = [Document(id=hit.id, content=hit.text, meta=metadata_of(hit), score=hit.score) for hit in answer.hits]
        return {"documents": hits}


@component
class RerankerRanker:
    """Sorts documents by how well title and text answer the query, by the re-ranker at `url`."""

    def __init__(
        self, url: str, top_k: int | None = None, api_key: Secret | None = KEY, ca_file: str | None = None
    ) -> None:
        self.url, self.top_k, self.api_key, self.ca_file = url, top_k, api_key, ca_file
        self._reranker = Reranker(url, key=api_key and api_key.resolve_value(), ca_file=ca_file)

    @component.output_types(documents=list[Document])  # type: ignore[untyped-decorator]
    def run(self, query: str, documents: list[Document], top_k: int | None = None) -> dict[str, list[Document]]:
        """Returns the `top_k` best documents, or all; their scores are the re-ranker's."""
        texts = [passage(document.meta, document.content) for document in documents]
        ranked = self._reranker.rerank(query, texts, top=self.top_k if top_k is None else top_k)
        return {"documents": [replace(documents[index], score=score) for index, score in ranked]}
