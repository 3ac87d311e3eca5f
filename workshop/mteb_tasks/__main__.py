"""Evaluates a pipeline of a gateway with mteb, on tasks of mteb or on a collection in BEIR layout."""

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mteb
from datasets import Dataset
from mteb.abstasks import AbsTaskRetrieval
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.models import ModelMeta

from evaluator.datasets.reader import read_dataset
from evaluator.errors import EvaluationError
from evaluator.progress import show
from workshop.mteb_tasks.gateway_collection import collection_name, load_corpus, search_all


def beir_task(directory: Path, split: str = "test") -> Any:
    """Returns a task over a collection on this machine; its queries are the judged ones of `qrels/<split>.tsv`."""
    read = read_dataset(directory, split)
    name = directory.resolve().name

    class LocalTask(AbsTaskRetrieval):  # type: ignore[misc]  # mteb is not installed where types are checked
        """A collection on this machine."""

        metadata = TaskMetadata(
            name=name,
            description=f"The collection {name}, from disk.",
            dataset={"path": str(directory), "revision": "local"},
            type="Retrieval",
            category="t2t",
            modalities=["text"],
            eval_splits=[split],
            eval_langs=["eng-Latn"],
            main_score="ndcg_at_10",
            reference=None,
            date=None,
            domains=None,
            task_subtypes=None,
            license=None,
            annotations_creators=None,
            dialect=None,
            sample_creation=None,
            bibtex_citation="",
        )

        def load_data(self, *_: Any, **__: Any) -> None:
            """Reads corpus, judged queries and judgments from the files."""
            corpus = [
                {"id": document.id, "title": document.title, "text": document.text} for document in read.documents()
            ]
            queries = [{"id": query, "text": read.queries[query]} for query in read.judgments]
            self.dataset = {
                "default": {
                    split: {
                        "corpus": Dataset.from_list(corpus),
                        "queries": Dataset.from_list(queries),
                        "relevant_docs": {query: dict(grades) for query, grades in read.judgments.items()},
                        "top_ranked": None,
                    }
                }
            }
            self.data_loaded = True

    return LocalTask()


class GatewaySearch:
    """Searches with one pipeline, as mteb's SearchProtocol asks (mteb/models/models_protocols.py).

    Each task, subset and split is a collection of its own at the gateway. `index` sends the whole corpus each time;
    a service encodes only documents that it does not have. Raises EvaluationError for an answer that is lost or
    degraded: mteb has no place to report it.
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
        texts = {row["id"]: row["text"] for row in queries}
        return asyncio.run(search_all(self._gateway, name, self._pipeline, texts, top_k))


def main() -> None:
    """Reads the command line, evaluates, and prints the main score of every task."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="+", help="names of tasks of mteb, or directories in BEIR layout")
    parser.add_argument("--pipeline", default="hybrid")
    parser.add_argument("--gateway", default="http://127.0.0.1:8000")
    parser.add_argument("--split", default="test", help="of directories")
    arguments = parser.parse_args()
    try:
        _evaluate(
            arguments.tasks, GatewaySearch(arguments.gateway, arguments.pipeline), arguments.pipeline, arguments.split
        )
    except EvaluationError as error:
        raise SystemExit(f"mteb_tasks: {error}") from error


def _evaluate(names: Sequence[str], search: GatewaySearch, pipeline: str, split: str) -> None:
    tasks = [beir_task(Path(name), split) if Path(name).is_dir() else mteb.get_task(name) for name in names]
    results = mteb.evaluate(search, tasks, cache=None, overwrite_strategy="always")
    for result in results.task_results:
        show(f"{result.task_name} {pipeline} {result.get_score():.5f}")


if __name__ == "__main__":
    main()
