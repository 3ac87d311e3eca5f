"""Adapts a pipeline of a gateway to mteb's SearchProtocol (mteb/models/models_protocols.py)."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from mteb.models import ModelMeta

from evaluator.errors import EvaluationError
from workshop.mteb_tasks.gateway_collection import collection_name, load_corpus, search_all


class GatewaySearch:
    """Searches with one pipeline. Each task, subset and split is a collection of its own at the gateway.

    `index` sends the whole corpus each time; a service encodes only documents that it does not have. Raises
    EvaluationError for an answer that is lost or degraded: mteb has no place to report it.
    """

    def __init__(self, gateway: str, pipeline: str) -> None:
        self._gateway = gateway
        self._pipeline = pipeline

    @property
    def mteb_model_meta(self) -> ModelMeta:
        """Names the pipeline as a model; nothing else that mteb asks of a model is known of it."""
        return ModelMeta.create_empty({"name": f"retrieval-stack/{self._pipeline}", "revision": "gateway"})

    def index(self, corpus: Any, *, task_metadata: Any, hf_split: str, hf_subset: str, **_: Any) -> None:
        """Loads and publishes a corpus of mteb: rows with `id`, `text` and perhaps `title`."""
        asyncio.run(load_corpus(self._gateway, collection_name(task_metadata.name, hf_subset, hf_split), corpus))

    def search(
        self,
        queries: Any,
        *,
        task_metadata: Any,
        hf_split: str,
        hf_subset: str,
        top_k: int,
        top_ranked: Mapping[str, Sequence[str]] | None = None,
        **_: Any,
    ) -> dict[str, dict[str, float]]:
        """Returns for each query the documents with scores that keep the order of the hits, ties broken as they are."""
        if top_ranked is not None:
            raise EvaluationError(
                f"{task_metadata.name} is a re-ranking task: it gives the candidates, and a pipeline finds its own"
            )
        name = collection_name(task_metadata.name, hf_subset, hf_split)
        asked = {row["id"]: row["text"] for row in queries}
        return asyncio.run(search_all(self._gateway, name, self._pipeline, asked, top_k))
