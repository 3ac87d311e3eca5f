"""Sends a corpus to the gateway in batches, several at once, and slows down where the gateway or a service is full."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from evaluator.client.client import GatewayClient, GatewayError
from evaluator.client.retries import Sleep, with_retries
from evaluator.datasets.corpus import (
    MOST_DOCUMENT_BYTES,
    MOST_DOCUMENT_VALUES,
    metadata_values,
    sent_json,
    vector_values,
)
from evaluator.errors import EvaluationError
from evaluator.progress import Advance
from services.contracts.base import Count, Wire
from services.contracts.documents import Document, FanOutReport, IndexReport

MOST_IN_FLIGHT = 4
FIRST_BATCH_DOCUMENTS, MOST_BATCH_DOCUMENTS = 64, 256
# Seconds of a call below which the next batches are larger, and above which they are smaller: of the 120 that it has.
QUICK_S, SLOW_S = 2.5, 10.0

T = TypeVar("T")


class BackendLoad(Wire):
    """Documents indexed, unchanged and encoded by one backend, over all batches."""

    indexed: Count = 0
    unchanged: Count = 0
    encoded: Count = 0


@dataclass(slots=True)
class LoadTally:
    """What the calls of one load have done so far. `command` is the one to run again after a failure."""

    command: str = "ingest"
    batches: int = 0
    retries: int = 0
    stripped: int = 0
    undeclared: set[str] = field(default_factory=set)
    backends: dict[str, BackendLoad] = field(default_factory=dict)

    def add(self, report: FanOutReport) -> None:
        """Adds the report of a batch that every backend took."""
        self.batches += 1
        self.stripped += report.stripped_characters
        self.undeclared.update(report.undeclared_metadata)
        for outcome in report.services:
            if isinstance(outcome.report, IndexReport):
                before = self.backends.get(outcome.backend, BackendLoad())
                self.backends[outcome.backend] = BackendLoad(
                    indexed=before.indexed + outcome.report.indexed,
                    unchanged=before.unchanged + outcome.report.unchanged,
                    encoded=before.encoded + outcome.report.encoded,
                )


@dataclass(slots=True)
class LoadPace:
    """How many documents the next call has, and how many calls are in flight at once.

    Calls in flight: one more for each round of them that was taken, half at each 429 (RFC 5681, section 3.1).
    """

    documents: int = FIRST_BATCH_DOCUMENTS
    _window: float = 1.0

    @property
    def in_flight(self) -> int:
        """The most batches at once, from 1 to MOST_IN_FLIGHT."""
        return int(self._window)

    def taken(self, documents: int, seconds: float) -> None:
        """Learns of a batch of so many documents that was taken in this time."""
        self._window = min(MOST_IN_FLIGHT, self._window + 1 / self._window)
        if seconds < QUICK_S:
            self.documents = max(self.documents, min(2 * documents, MOST_BATCH_DOCUMENTS))
        self._bound(documents, seconds)

    def failed(self, documents: int, error: GatewayError, seconds: float) -> None:
        """Learns of a batch that was refused, or that not all backends took, after this time."""
        if error.status == 429:
            self._window = max(1.0, self._window / 2)
        self._bound(documents, seconds)

    def _bound(self, documents: int, seconds: float) -> None:
        # From that call, not from the present number: calls that were in flight together are slow together.
        if seconds > SLOW_S:
            self.documents = min(self.documents, max(1, int(documents * SLOW_S / seconds)))


async def send_batches(
    client: GatewayClient,
    target: str,
    documents: Iterable[Document],
    build: str,
    tally: LoadTally,
    sleep: Sleep,
    advance: Advance,
) -> None:
    """Sends all documents and adds each report to `tally`. `advance` gets the number of documents of each batch that
    all backends took.

    Each document is in one batch only, so the order in which batches arrive does not matter. Raises the first error
    when the other calls in flight have ended as well: nothing is written after it. Cancelled, it cancels them.
    """
    pace = LoadPace()
    running: set[asyncio.Task[int]] = set()

    async def send(batch: list[bytes]) -> int:
        rest = batch

        async def send_part() -> None:
            nonlocal rest
            part = rest[: pace.documents]
            tally.add(await _timed_call(client, target, build, part, pace))
            rest = rest[len(part) :]

        while rest:  # in smaller calls where the batch was cut before the encoders turned out to be slow
            await with_counted_retries(send_part, tally, sleep)
        return len(batch)

    async def ended() -> None:
        done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            advance(await task)
            running.discard(task)

    try:
        for batch in batches(documents, lambda: pace.documents):
            while len(running) >= pace.in_flight:
                await ended()
            running.add(asyncio.create_task(send(batch)))
        while running:
            await ended()
    except Exception:
        await asyncio.gather(*running, return_exceptions=True)
        raise
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _timed_call(
    client: GatewayClient, target: str, build: str, documents: list[bytes], pace: LoadPace
) -> FanOutReport:
    began = time.monotonic()
    try:
        report = await _index_batch(client, target, documents_body(build, documents))
    except GatewayError as error:
        pace.failed(len(documents), error, time.monotonic() - began)
        raise
    pace.taken(len(documents), time.monotonic() - began)
    return report


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


def batches(
    documents: Iterable[Document], most_documents: Callable[[], int], most_bytes: int = MOST_DOCUMENT_BYTES
) -> Iterator[list[bytes]]:
    """Yields consecutive documents as JSON, as many as one DocumentsRequest may have.

    `most_documents` returns the most that the next batch may have.

    A document above `most_bytes` alone raises EvaluationError: the wire would refuse it.
    """
    parts: list[bytes] = []
    size = values = 0
    for document in documents:
        part = sent_json(document)
        if len(part) > most_bytes:
            advice = "; export without --vectors" if vector_values(document) else ""
            raise EvaluationError(
                f"document {document.id!r}: {len(part)} bytes; at most {most_bytes} can be sent{advice}"
            )
        held = metadata_values(document) + vector_values(document)
        taken = len(part) + _repeated_characters(document)
        full = len(parts) >= most_documents() or size + taken > most_bytes or values + held > MOST_DOCUMENT_VALUES
        if parts and full:
            yield parts
            parts, size, values = [], 0, 0
        parts.append(part)
        size += taken + 1
        values += held
    if parts:
        yield parts


def _repeated_characters(document: Document) -> int:
    """Counts what an engine makes of word frequencies: Elasticsearch takes requests of 100 MB."""
    held = None if document.expansions is None else document.expansions.deepct
    return 0 if held is None else held.repeated_characters


def documents_body(build: str, documents: list[bytes]) -> bytes:
    """Returns the DocumentsRequest of documents that are JSON already."""
    return b'{"build":"' + build.encode() + b'","documents":[' + b",".join(documents) + b"]}"


async def with_counted_retries(call: Callable[[], Awaitable[T]], tally: LoadTally, sleep: Sleep) -> T:
    """Calls `with_retries` and counts the retries."""

    def count() -> None:
        tally.retries += 1

    return await with_retries(call, tally.command, sleep, on_retry=count)
