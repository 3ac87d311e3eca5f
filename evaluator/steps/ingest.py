"""Loads a collection through the gateway. Idempotent: after an interruption, a second run completes the same state."""

import hashlib
import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from operator import not_
from pathlib import Path
from typing import Annotated

from pydantic import Field, FiniteFloat

from evaluator.client.client import GatewayClient, loading_errors
from evaluator.client.retries import with_retries
from evaluator.datasets.corpus import CORPUS_FIELDS
from evaluator.datasets.reader import Dataset
from evaluator.datasets.text_files import sha256
from evaluator.errors import EvaluationError
from evaluator.expansion.expansion_file import declared_models, expanded
from evaluator.experiments.experiment import Experiment
from evaluator.machine.process_costs import ProcessCost
from evaluator.progress import Advance, ShownProgress, progress, say
from evaluator.runs.run_folder import StepFile
from retrieval_client import RetrievalError
from retrieval_client.answers import PublishJob
from retrieval_client.loading import BackendLoad, LoadReport
from services.contracts.base import Count
from services.contracts.collections import CollectionDeclaration, CollectionState, CollectionView, VectorState
from services.contracts.expansions import ExpansionMethod


class IngestReport(StepFile):
    """A complete load: every backend took every document and the counts agree."""

    corpus_sha256: str | None = None  # null: loaded by a release that did not record it
    expansions: Annotated[dict[str, str], Field(exclude_if=not_)] = {}  # sha256 by file
    collection: str
    generation: str
    created: bool
    documents: Count
    batches: Count
    retries: Count
    stripped_characters: Count
    undeclared_metadata: tuple[str, ...] = ()  # kept, but no search can filter by it
    backends: dict[str, BackendLoad]
    vectors: dict[str, VectorState]
    seconds: FiniteFloat
    costs: dict[str, ProcessCost] = {}  # of the named processes, from the first batch until it was published

    def cpu_ms_a_document(self, process: str) -> float | None:
        """Returns the CPU time of a process by document; None where documents were there already, or it is unknown."""
        whole = all(backend.indexed == self.documents for backend in self.backends.values()) and self.documents
        cpu_ms = self.costs[process].cpu_ms if process in self.costs else None
        return cpu_ms / self.documents if whole and cpu_ms is not None else None

    def unread(self) -> Iterator[str]:
        """Yields what models did not read, or do not know, of the documents that they encoded in this load."""
        for name, load in self.backends.items():
            encoded = f"{load.encoded:,} documents" + (" encoded now" if load.encoded < self.documents else "")
            if load.read is not None and load.read.longer:
                yield (
                    f"{load.read.longer:,} of {encoded} are longer than {load.read.limit} tokens; {name} does not read "
                    f"{load.read.unread / load.read.longer_tokens:.0%} of their words"
                )
            if load.read is not None and load.read.foreign:
                yield (
                    f"{load.read.foreign:,} of {encoded} consist to {load.read.unknown / load.read.foreign_tokens:.0%} "
                    f"of pieces that the model of {name} does not know"
                )


async def ingest(
    client: GatewayClient,
    experiment: Experiment,
    dataset: Dataset,
    shown: ShownProgress = progress,
) -> IngestReport:
    """Begins, sends every batch, publishes, compares the counts. Raises EvaluationError when anything is missing.

    The collection lives on the backends that the experiment's pipelines use, and on those where it is already.

    Its own build separates it from other writers. The build's name is a hash of what is loaded, so that a second run
    continues a killed load; a rebuild starts anew. `shown` counts every batch that all backends took.
    """
    started, target = time.perf_counter(), experiment.target
    files = tuple(map(Path, experiment.expansions))
    expansions = expansion_hashes(experiment)
    declaration = _declaration(experiment, dataset, declared_models(files))
    build = secrets.token_hex(16) if experiment.rebuild else build_name(target, declaration, dataset, expansions)
    backends = await _needed_backends(client, experiment)
    wanted = {**declaration.model_dump(), "backends": backends, "new_generation": experiment.rebuild, "build": build}
    if dataset.counts.fields_not_read:
        unread = ", ".join(dataset.counts.fields_not_read)
        say(f"Not read, because a BEIR corpus has {', '.join(CORPUS_FIELDS)} alone: {unread}")
    documents = expanded(dataset.documents(), files) if files else dataset.documents()
    with loading_errors("ingest"):
        try:
            begun = await client.loader.begin(target, **wanted)
        except RetrievalError as error:
            if error.kind != "stamp-mismatch":
                raise
            say(f"Loading {target} anew, beside what is live: {error}")
            begun = await client.loader.begin(target, **{**wanted, "new_generation": True})
        with shown(f"Loading {begun.generation}", dataset.counts.documents, "documents") as advance:
            loaded = await client.loader.load(target, documents, build=build, progress=advancing(advance))
        if loaded.undeclared_metadata:
            say(
                f"Kept, but no search can filter by it, because {target} does not declare it: metadata "
                f"{', '.join(sorted(loaded.undeclared_metadata))}. Name it under `metadata` of the experiment and load "
                "again."
            )
        if loaded.overtaken:
            raise EvaluationError(
                f"{target}: somebody else wrote {len(loaded.overtaken)} of these documents meanwhile, such as "
                f"'{min(loaded.overtaken)}', and newer writes stay. Load the corpus under a `target` of its own, or "
                "end the other writes and use --rebuild."
            )
        say(f"Publishing {begun.generation} (merging, waiting for vector indexes) ...")
        try:
            published = await client.loader.publish(
                target, build=build, expected_documents=dataset.counts.documents, progress=say_what_publishes
            )
        except RetrievalError as error:
            if error.status != 409:
                raise
            raise EvaluationError(f"{target} was not published: {error} --rebuild loads it anew.") from error
    view = await with_retries(lambda: client.collection(target), "ingest")
    counts = {"published": published.documents}
    counts |= {name: state.documents for name, state in live_states(view).items()}
    wrong = {name: count for name, count in counts.items() if count != dataset.counts.documents}
    if wrong:
        raise EvaluationError(
            f"{target}: the corpus has {dataset.counts.documents} documents, but {wrong} say otherwise. "
            "If the collection held documents that the corpus no longer has, load it anew with --rebuild."
        )
    return IngestReport(
        corpus_sha256=dataset.corpus_sha256,
        expansions=expansions,
        collection=target,
        generation=published.generation,
        created=begun.created,
        documents=published.documents,
        batches=loaded.batches,
        retries=loaded.repetitions,
        stripped_characters=dataset.counts.document_characters_stripped + loaded.stripped_characters,
        undeclared_metadata=tuple(sorted(loaded.undeclared_metadata)),
        backends=loaded.backends,
        vectors={name: state.vectors for name, state in live_states(view).items() if state.vectors is not None},
        seconds=time.perf_counter() - started,
    )


def advancing(advance: Advance) -> Callable[[LoadReport], None]:
    """Returns what `load` calls with its report, to advance by the documents since the call before."""
    done = 0

    def progress(report: LoadReport) -> None:
        nonlocal done
        count, done = report.documents - done, report.documents
        advance(count)

    return progress


def say_what_publishes(job: PublishJob) -> None:
    """Tells what `publish` waits for."""
    waiting = f", waiting for {', '.join(job.waiting_for)}" if job.waiting_for else ""
    say(f"Publishing {job.generation}: {job.phase}{waiting} ...")


async def _needed_backends(client: GatewayClient, experiment: Experiment) -> tuple[str, ...] | None:
    """Returns the storing backends that the pipelines use; None where the gateway's release does not name them."""
    storing = (await with_retries(client.collections, "ingest")).backends
    used: set[str] = set()
    for pipeline in experiment.pipelines:
        if isinstance(pipeline, str):
            used.update((await with_retries(partial(client.pipeline, pipeline), "ingest")).pipeline.backends)
        else:
            used.update(pipeline.backends)
    return tuple(name for name in storing if name in used) or None


def expansion_hashes(experiment: Experiment) -> dict[str, str]:
    """Returns the sha256 of each file of expansions."""
    return {name: sha256(Path(name)) for name in experiment.expansions}


def _declaration(
    experiment: Experiment, dataset: Dataset, models: Mapping[ExpansionMethod, str]
) -> CollectionDeclaration:
    """Returns what the collection declares: the experiment's presets, and those of its expansions."""
    named = [item if isinstance(item, str) else item.match for item in experiment.presets]
    if lacking := [name for name in ("doc2query", "deepct") if name in named and name not in models]:
        raise EvaluationError(f"presets: {lacking[0]} scores expansions, which no file under `expansions` has")
    return CollectionDeclaration(
        presets=(*experiment.presets, *(method for method in models if method not in named)),
        metadata=dict(dataset.schema if experiment.metadata is None else experiment.metadata),
        expansions=dict(models),
    )


def build_name(target: str, declaration: CollectionDeclaration, dataset: Dataset, expansions: Mapping[str, str]) -> str:
    """Hashes collection, declaration, corpus and files of expansions to the name of a build."""
    parts = (target, declaration.model_dump_json(), dataset.corpus_sha256, *expansions.values())
    return f"ingest-{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]}"


def live_states(view: CollectionView) -> dict[str, CollectionState]:
    """Returns each backend's state of the live generation."""
    return states_of(view, view.live)


def states_of(view: CollectionView, generation: str | None) -> dict[str, CollectionState]:
    """Returns the state of a generation in each backend that has it."""
    return {
        backend.backend: state
        for backend in view.backends
        for state in backend.generations
        if state.generation == generation
    }
