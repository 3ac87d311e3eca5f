"""Checks that the live collection holds the corpus of the files. Changes neither."""

import random
from collections.abc import Sequence

from evaluator.client.client import GatewayClient, GatewayError
from evaluator.command_line import command_line
from evaluator.datasets.reader import Dataset
from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import Experiment
from evaluator.steps.ingest import live_states
from evaluator.thread_work import in_thread
from services.contracts.collections import CollectionView
from services.contracts.documents import Document

# A collection of which 2 % differ passes with 200 documents in less than 2 % of the cases (0.98 ** 200).
SAMPLE = 200
LOAD_AGAIN = f"`{command_line('ingest', 'EXPERIMENT')}` loads it again, with --rebuild into a new generation"


async def expect_same_corpus(
    client: GatewayClient, experiment: Experiment, dataset: Dataset, view: CollectionView
) -> int:
    """Compares the count of every backend and a seeded sample of documents with the files.

    Returns how many documents were compared: 0 where no backend returns documents by id. Raises EvaluationError when
    the collection holds another corpus, GatewayError when it cannot be asked.
    """
    counts = {name: state.documents for name, state in live_states(view).items()}
    if wrong := {name: count for name, count in counts.items() if count != dataset.counts.documents}:
        found = ", ".join(f"{name} has {count}" for name, count in wrong.items())
        raise EvaluationError(
            f"{view.live}: the corpus has {dataset.counts.documents} documents, but {found}; {LOAD_AGAIN}"
        )
    if not any(backend.family == "lexical" for backend in view.backends):  # the only family with a document store
        return 0
    sample = await in_thread(sampled_documents, dataset, experiment.seed)
    held = {document.id: document for document in await _held(client, experiment.target, list(sample))}
    missing = [name for name in sample if name not in held]
    differing = [name for name, one in sample.items() if name in held and _content(held[name]) != _content(one)]
    if missing or differing:
        first = (missing + differing)[0]
        raise EvaluationError(
            f"{view.live} does not hold this corpus: of {len(sample)} documents drawn with seed {experiment.seed}, "
            f"{len(missing)} are missing and {len(differing)} differ (the first: {first!r}); {LOAD_AGAIN}"
        )
    return len(sample)


def sampled_documents(dataset: Dataset, seed: int) -> dict[str, Document]:
    """Returns a seeded sample of the corpus by id, all of it where it is small. Reads the file once."""
    documents = dataset.counts.documents
    drawn = frozenset(random.Random(seed).sample(range(documents), min(SAMPLE, documents)))
    return {document.id: document for document in dataset.documents(drawn)}


async def _held(client: GatewayClient, target: str, ids: Sequence[str]) -> tuple[Document, ...]:
    """Returns the documents that the collection holds, in as many requests as the limit of an answer needs."""
    try:
        return (await client.documents(target, ids)).documents
    except GatewayError as error:
        if error.kind != "answer-too-large" or len(ids) == 1:
            raise
    half = len(ids) // 2
    return (*await _held(client, target, ids[:half]), *await _held(client, target, ids[half:]))


def _content(document: Document) -> tuple[object, ...]:
    return document.title, document.text, document.metadata
