"""Checks what every step that sends queries needs: dataset, a collection that holds it, pipelines; draws the queries.

Sends none of them, and writes dataset.json alone; the steps keep the manifest.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple

from evaluator.client.client import GatewayClient, GatewayError
from evaluator.datasets.reader import Dataset, DatasetRecord, read_dataset, read_or_recall
from evaluator.errors import EvaluationError, command_line
from evaluator.experiments.experiment import Experiment
from evaluator.progress import in_thread
from evaluator.runs.manifest import Manifest, build_manifest, dataset_directory
from evaluator.runs.run_folder import RunFolder
from evaluator.steps.arms import Arm, resolve_arms, search_request
from evaluator.steps.ingest import IngestReport, expansion_hashes, live_states
from evaluator.steps.rank import ChosenQueries, choose_queries, expect_runnable
from evaluator.steps.run_import import IMPORTED
from services.contracts.collections import CollectionView
from services.contracts.documents import Document

# A collection of which 2 % differ passes with 200 documents in less than 2 % of the cases (0.98 ** 200).
SAMPLE = 200


class PreparedRun(NamedTuple):
    """All that a run needs. `compared_documents`: of the collection with the corpus. `manifest`: of this moment."""

    dataset: Dataset
    view: CollectionView
    arms: tuple[Arm, ...]
    queries: ChosenQueries
    compared_documents: int
    manifest: Manifest


async def prepare_run(client: GatewayClient, folder: RunFolder) -> PreparedRun:
    """Checks that the gateway serves corpus and pipelines. Raises EvaluationError, also for an imported run."""
    expect_own_run(folder)
    experiment = folder.experiment
    dataset = await in_thread(dataset_of, folder)
    _expect_loaded_corpus(folder, dataset)
    load = command_line("ingest", str(folder.path / "experiment.json"), gateway=client.url)
    view = await live_collection(client, experiment, load)
    arms = await resolve_arms(client, experiment, view)
    compared = await expect_same_corpus(client, experiment, dataset, view, load)
    await expect_runnable(client, experiment, arms)
    pipelines = {arm.name: arm.pipeline.fingerprint for arm in arms}
    manifest = build_manifest(experiment, dataset, client.url, str(view.live), live_states(view), pipelines)
    queries = choose_queries(list(dataset.judgments), list(dataset.queries), experiment)
    for arm in arms:
        for query in (*queries.measured, *queries.warmup):
            search_request(arm, dataset, query, experiment.depth)  # raises before the first of them is sent
    return PreparedRun(dataset, view, arms, queries, compared, manifest)


def keep_manifest(folder: RunFolder, manifest: Manifest) -> None:
    """Writes manifest.json unless an earlier step has written one.

    Raises EvaluationError where that one is of something else: it would stand beside figures that are not of it.
    """
    if not folder.has("manifest.json"):
        folder.write("manifest.json", manifest)
        return
    before, now = folder.read("manifest.json", Manifest).time_identity, manifest.time_identity
    if changed := [what for what, value in before.items() if value != now[what]]:
        raise EvaluationError(
            f"{folder.path}: since its manifest.json was written there is another {' and another '.join(changed)}; "
            "measure in a new run (name the experiment instead of --run)"
        )


def expect_same_answers(folder: RunFolder, manifest: Manifest) -> None:
    """Raises EvaluationError where the gateway no longer answers as it did for the ranking of this run."""
    before, now = folder.read("manifest.json", Manifest).answer_identity, manifest.answer_identity
    if changed := [what for what, value in before.items() if value != now[what]]:
        raise EvaluationError(
            f"{folder.path}: since its queries ran there is another {' and another '.join(changed)}; rank a new run"
        )


def expect_own_run(folder: RunFolder) -> None:
    """Raises EvaluationError for a run whose queries no gateway answered."""
    if folder.has(IMPORTED):
        raise EvaluationError(f"{folder.path} was imported: no gateway answers its pipelines; name another with --run")


def load_dataset(experiment: Experiment) -> Dataset:
    """Reads and checks the experiment's collection."""
    return read_dataset(
        experiment.directory, experiment.split, strict=experiment.strict, skip_unsendable=experiment.skip_unsendable
    )


def dataset_of(folder: RunFolder) -> Dataset:
    """Returns the dataset of a run: reads and checks it the first time, later only if a file changed (dataset.json)."""
    experiment = folder.experiment
    known = folder.read("dataset.json", DatasetRecord) if folder.has("dataset.json") else None
    dataset, record = read_or_recall(
        dataset_directory(folder),
        experiment.split,
        strict=experiment.strict,
        skip_unsendable=experiment.skip_unsendable,
        record=known,
    )
    if record is not known:
        folder.write("dataset.json", record)
    return dataset


async def live_collection(client: GatewayClient, experiment: Experiment, load: str) -> CollectionView:
    """Returns the experiment's collection. Raises EvaluationError, naming `load`, unless a generation is published."""
    try:
        view = await client.collection(experiment.target)
    except GatewayError as error:
        if error.kind != "unknown-collection":
            raise
    else:
        if view.live is not None:
            return view
    raise EvaluationError(f"{experiment.target} has no published generation; `{load}` loads it")


def _expect_loaded_corpus(folder: RunFolder, dataset: Dataset) -> None:
    """Raises EvaluationError when the corpus is no longer the one that this run's `ingest` loaded."""
    if not folder.has("ingest.json"):
        return
    report = folder.read("ingest.json", IngestReport)
    again = command_line("ingest", str(folder.path / "experiment.json"))
    if report.corpus_sha256 not in (None, dataset.corpus_sha256):
        raise EvaluationError(f"{dataset.directory}: the corpus changed since it was loaded; run `{again}` again")
    if report.expansions != expansion_hashes(folder.experiment):
        raise EvaluationError(
            f"{dataset.directory}: its expansions changed since they were loaded; run `{again}` again"
        )


async def expect_same_corpus(
    client: GatewayClient, experiment: Experiment, dataset: Dataset, view: CollectionView, load: str
) -> int:
    """Compares the count of every backend and a seeded sample of documents with the files. `load`: loads them again.

    Returns how many documents were compared: 0 where no backend returns documents by id. Raises EvaluationError when
    the collection holds another corpus, GatewayError when it cannot be asked.
    """
    again = f"`{load}` loads it again, with --rebuild into a new generation"
    counts = {name: state.documents for name, state in live_states(view).items()}
    if wrong := {name: count for name, count in counts.items() if count != dataset.counts.documents}:
        counted = ", ".join(f"{name} has {count}" for name, count in wrong.items())
        raise EvaluationError(
            f"{view.live}: the corpus has {dataset.counts.documents} documents, but {counted}; {again}"
        )
    if not any(backend.family == "lexical" for backend in view.backends):  # the only family with a document store
        return 0
    sample = await in_thread(sampled_documents, dataset, experiment.seed)
    held = {document.id: document for document in await _held(client, experiment.target, list(sample))}
    missing = [name for name in sample if name not in held]
    differing = [
        name for name, document in sample.items() if name in held and _content(held[name]) != _content(document)
    ]
    if missing or differing:
        first = (missing + differing)[0]
        raise EvaluationError(
            f"{view.live} does not hold this corpus: of {len(sample)} documents drawn with seed {experiment.seed}, "
            f"{len(missing)} are missing and {len(differing)} differ (the first: {first!r}); {again}"
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
