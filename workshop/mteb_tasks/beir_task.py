"""Makes a retrieval task of mteb of a collection in BEIR layout on this machine: no hub is asked."""

from pathlib import Path
from typing import Any

from datasets import Dataset
from mteb.abstasks import AbsTaskRetrieval
from mteb.abstasks.task_metadata import TaskMetadata

from evaluator.datasets.reader import read_dataset


def beir_task(directory: Path, split: str = "test") -> Any:
    """Returns the task; its queries are the judged ones of `qrels/<split>.tsv`."""
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
            corpus = [{"id": one.id, "title": one.title, "text": one.text} for one in read.documents()]
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
