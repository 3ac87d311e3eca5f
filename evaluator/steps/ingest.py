"""Loads a collection through the gateway. Idempotent: after an interruption, a second run completes the same state."""

import asyncio
import hashlib
import json
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import not_
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import Field, FiniteFloat

from evaluator.client.client import GatewayClient, GatewayError
from evaluator.client.retries import ATTEMPTS, Sleep, with_retries
from evaluator.datasets.corpus import (
    CORPUS_FIELDS,
    MOST_DOCUMENT_BYTES,
    MOST_DOCUMENT_VALUES,
    metadata_values,
    sent_json,
)
from evaluator.datasets.reader import Dataset
from evaluator.datasets.text_files import sha256
from evaluator.errors import EvaluationError
from evaluator.expansion.expansion_file import declared_models, expanded
from evaluator.experiments.experiment import Experiment
from evaluator.machine.process_costs import ProcessCost
from evaluator.progress import ShownProgress, progress, say
from evaluator.runs.run_folder import StepFile
from services.contracts.base import Count, Wire
from services.contracts.collections import (
    BeginCollection,
    CollectionBegun,
    CollectionDeclaration,
    CollectionState,
    CollectionView,
    PublishRequest,
    VectorState,
)
from services.contracts.documents import Document, FanOutReport, IndexReport
from services.contracts.expansions import ExpansionMethod

MAX_BATCH_DOCUMENTS = 64
MAX_BATCH_BYTES = MOST_DOCUMENT_BYTES
ADDITION_POLL_S = 1.0
PUBLISH_ATTEMPTS = 60  # of two minutes each, enough for the vector index of a few million documents

T = TypeVar("T")


class BackendLoad(Wire):
    """Documents indexed, unchanged and encoded by one backend, over all batches."""

    indexed: Count = 0
    unchanged: Count = 0
    encoded: Count = 0


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
        whole = all(one.indexed == self.documents for one in self.backends.values()) and self.documents
        cpu_ms = self.costs[process].cpu_ms if process in self.costs else None
        return cpu_ms / self.documents if whole and cpu_ms is not None else None


@dataclass(slots=True)
class _LoadTally:
    batches: int = 0
    retries: int = 0
    stripped: int = 0
    undeclared: set[str] = field(default_factory=set)
    backends: dict[str, BackendLoad] = field(default_factory=dict)


async def ingest(
    client: GatewayClient,
    experiment: Experiment,
    dataset: Dataset,
    sleep: Sleep = asyncio.sleep,
    shown: ShownProgress = progress,
    tell: Callable[[str], None] = say,
) -> IngestReport:
    """Begins, sends every batch, publishes, compares the counts. Raises EvaluationError when anything is missing.

    The collection lives on the backends that the experiment's pipelines use, and on those where it is already.

    Its own build separates it from other writers. The build's name is a hash of what is loaded, so that a second run
    continues a killed load; a rebuild starts anew. `shown` counts every batch that all backends took; `tell` gets all
    other messages.
    """
    started = time.perf_counter()
    tally, target = _LoadTally(), experiment.target
    files = tuple(map(Path, experiment.expansions))
    expansions = expansion_hashes(experiment)
    declaration = _declaration(experiment, dataset, declared_models(files))
    build = secrets.token_hex(16) if experiment.rebuild else build_name(target, declaration, dataset, expansions)
    declared = {**dict(declaration), "backends": await _needed_backends(client, experiment, tally, sleep)}
    wanted = BeginCollection(**declared, new_generation=experiment.rebuild, build=build)
    if dataset.counts.fields_not_read:
        unread = ", ".join(dataset.counts.fields_not_read)
        tell(f"Not read, because a BEIR corpus has {', '.join(CORPUS_FIELDS)} alone: {unread}")
    begun = await _with_retries(lambda: client.begin(target, wanted), tally, sleep)
    documents = expanded(dataset.documents(), files) if files else dataset.documents()
    with shown(f"Loading {begun.generation}", dataset.counts.documents, "documents") as advance:
        async for sent in _index_all(client, target, batches(documents, build), tally, sleep):
            advance(sent)
    if tally.undeclared:
        tell(
            f"Kept, but no search can filter by it, because {target} does not declare it: metadata "
            f"{', '.join(sorted(tally.undeclared))}. Name it under `metadata` of the experiment and load again."
        )
    tell(f"Publishing {begun.generation} (merging, waiting for vector indexes) ...")
    # The gateway resumes publishing: after a 504 the next attempt continues.
    await _wait_until_added(client, target, wanted, begun, tally, sleep, tell)
    publication = PublishRequest(build=build, expected_documents=dataset.counts.documents)
    try:
        published = await _with_retries(
            lambda: client.publish(target, publication), tally, sleep, attempts=PUBLISH_ATTEMPTS
        )
    except GatewayError as error:
        if error.status != 409:
            raise
        raise EvaluationError(f"{target} was not published: {error} --rebuild loads it anew.") from error
    view = await _with_retries(lambda: client.collection(target), tally, sleep)
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
        batches=tally.batches,
        retries=tally.retries,
        stripped_characters=dataset.counts.document_characters_stripped + tally.stripped,
        undeclared_metadata=tuple(sorted(tally.undeclared)),
        backends=tally.backends,
        vectors={name: state.vectors for name, state in live_states(view).items() if state.vectors is not None},
        seconds=time.perf_counter() - started,
    )


async def _wait_until_added(
    client: GatewayClient,
    target: str,
    wanted: BeginCollection,
    begun: CollectionBegun,
    tally: _LoadTally,
    sleep: Sleep,
    tell: Callable[[str], None],
) -> None:
    """Waits until the gateway has filled the backends that the live generation lacked, and asks it to go on where it
    was restarted meanwhile. Raises EvaluationError with its problem."""
    for addition in begun.adding:
        tell(f"Adding {addition.backend} to {begun.generation} ...")
    while begun.adding:
        await sleep(ADDITION_POLL_S)
        begun = await _with_retries(lambda: client.begin(target, wanted), tally, sleep)
        for addition in begun.adding:
            if addition.problem is not None:
                raise EvaluationError(f"{target}: {addition.backend} could not be added: {addition.problem}")


async def _needed_backends(
    client: GatewayClient, experiment: Experiment, tally: _LoadTally, sleep: Sleep
) -> tuple[str, ...] | None:
    """Returns the storing backends that the pipelines use; None where the gateway's release does not name them."""
    storing = (await _with_retries(client.collections, tally, sleep)).backends
    used: set[str] = set()
    for asked in experiment.pipelines:
        if isinstance(asked, str):
            used.update((await _with_retries(partial(client.pipeline, asked), tally, sleep)).pipeline.backends)
        else:
            used.update(asked.backends)
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
    return {
        backend.backend: state
        for backend in view.backends
        for state in backend.generations
        if state.generation == view.live
    }


def batches(
    documents: Iterable[Document],
    build: str,
    most_documents: int = MAX_BATCH_DOCUMENTS,
    most_bytes: int = MAX_BATCH_BYTES,
) -> Iterator[tuple[int, bytes]]:
    """Yields (number of documents, DocumentsRequest body) of consecutive documents for a build.

    A document above `most_bytes` alone raises EvaluationError: the wire would refuse it.
    """
    parts: list[bytes] = []
    size = values = 0
    for document in documents:
        part = sent_json(document)
        if len(part) > most_bytes:
            raise EvaluationError(f"document {document.id!r}: {len(part)} bytes; at most {most_bytes} can be sent")
        held = metadata_values(document)
        taken = len(part) + _repeated_characters(document)
        full = len(parts) == most_documents or size + taken > most_bytes or values + held > MOST_DOCUMENT_VALUES
        if parts and full:
            yield len(parts), _body(build, parts)
            parts, size, values = [], 0, 0
        parts.append(part)
        size += taken + 1
        values += held
    if parts:
        yield len(parts), _body(build, parts)


def _repeated_characters(document: Document) -> int:
    """Counts what an engine makes of word frequencies: Elasticsearch takes requests of 100 MB."""
    held = None if document.expansions is None else document.expansions.deepct
    return 0 if held is None else held.repeated_characters


def _body(build: str, parts: list[bytes]) -> bytes:
    return b'{"build":"' + build.encode() + b'","documents":[' + b",".join(parts) + b"]}"


async def _index_all(
    client: GatewayClient, target: str, bodies: Iterable[tuple[int, bytes]], tally: _LoadTally, sleep: Sleep
) -> AsyncIterator[int]:
    for count, body in bodies:
        report = await _with_retries(partial(_index_batch, client, target, body), tally, sleep)
        tally.batches += 1
        tally.stripped += report.stripped_characters
        tally.undeclared.update(report.undeclared_metadata)
        for outcome in report.services:
            if isinstance(outcome.report, IndexReport):
                before = tally.backends.get(outcome.backend, BackendLoad())
                tally.backends[outcome.backend] = BackendLoad(
                    indexed=before.indexed + outcome.report.indexed,
                    unchanged=before.unchanged + outcome.report.unchanged,
                    encoded=before.encoded + outcome.report.encoded,
                )
        yield count


async def _index_batch(client: GatewayClient, target: str, body: bytes) -> FanOutReport:
    report = await client.index(target, body)
    if report.complete:
        return report
    failed: list[str] = []
    refused: list[str] = []
    waiting: list[str] = []
    for outcome in report.services:
        if outcome.status == "failed":
            failed.append(f"{outcome.backend}: {outcome.reason}")
        elif isinstance(outcome.report, IndexReport):
            for item in outcome.report.errors:
                (waiting if item.retryable else refused).append(f"{outcome.backend}: {item.id}: {item.reason}")
    # Failed services and full queues are worth a retry, which is idempotent; a refused document stays refused.
    final = refused and not failed
    kind, status = ("documents-refused", 422) if final else ("incomplete", 503) if failed else ("overloaded", 429)
    reasons = "; ".join([*failed, *refused[:3], *([] if final else waiting[:3])])
    raise GatewayError(kind, f"a batch was not taken whole: {reasons}", status=status)


async def _with_retries(
    call: Callable[[], Awaitable[T]], tally: _LoadTally, sleep: Sleep, attempts: int = ATTEMPTS
) -> T:
    def count() -> None:
        tally.retries += 1

    return await with_retries(call, "ingest", sleep, attempts=attempts, on_retry=count)
