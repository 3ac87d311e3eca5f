"""Decides how a load goes on: which documents are a batch, how many batches are in flight, what is sent again."""

import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from pydantic_core import from_json

from retrieval_client.answers import FanOutReport, IndexReport, ReadTokens
from retrieval_client.calls import SentDocument, as_json, documents_body, documents_path
from retrieval_client.exchange import MOST_CALL_S, UNFINISHED, Repetition, Request, RetrievalError, Steps, attempt

MOST_IN_FLIGHT = 4
FIRST_BATCH_DOCUMENTS, MOST_BATCH_DOCUMENTS = 64, 256
# Below what a gateway takes: 8 MB and 100,000 values of JSON.
MOST_BATCH_BYTES, MOST_BATCH_VALUES = 7_500_000, 90_000
# Seconds of a call below which the next batches are larger, and above which they are smaller: of the 120 that it has.
QUICK_S, SLOW_S = 2.5, 10.0
# Seconds for which a batch is sent again.
PATIENCE_S = 600.0
_FREQUENCY = re.compile(rb'([^\s"|]+)\|([0-9]{1,6})')
_NO_VALUES = bytes(set(range(256)) - set(b"[{,"))


@dataclass(slots=True)
class BackendLoad:
    """Documents that one backend indexed, or had already, and texts that it encoded; `read`: how much of them."""

    indexed: int = 0
    unchanged: int = 0
    encoded: int = 0
    read: ReadTokens | None = None


@dataclass(slots=True)
class LoadReport:
    """What a load has done so far. `undeclared_metadata`: stored fields that filters cannot use.

    `overtaken`: the ids of documents that newer writes of other callers kept out.
    """

    documents: int = 0
    batches: int = 0
    repetitions: int = 0
    stripped_characters: int = 0
    undeclared_metadata: set[str] = field(default_factory=set)
    overtaken: set[str] = field(default_factory=set)
    backends: dict[str, BackendLoad] = field(default_factory=dict)


class Loading:
    """The state of one load. Its batches may be sent from several threads: what these race for are only estimates."""

    def __init__(self, collection: str, build: str | None, progress: Callable[[LoadReport], object] | None) -> None:
        self.report = LoadReport()
        self.ended = False
        self._path, self._build, self._progress = documents_path(collection), build, progress
        self._documents = FIRST_BATCH_DOCUMENTS
        self._window = 1.0

    @property
    def in_flight(self) -> int:
        """The most batches at once: one more for each round of them that was taken, half at each 429 (RFC 5681)."""
        return int(self._window)

    def batches(self, documents: Iterable[SentDocument]) -> Iterator[list[bytes]]:
        """Yields the documents as JSON, in batches that a gateway takes.

        Raises RetrievalError where a document alone is more than that.
        """
        batch: list[bytes] = []
        batch_bytes = batch_values = 0
        for document in documents:
            part = as_json(document)
            if len(part) > MOST_BATCH_BYTES:
                raise RetrievalError(
                    "document-too-large",
                    f"document {from_json(part).get('id')!r}: {len(part)} bytes; at most {MOST_BATCH_BYTES} can be "
                    "sent",
                    413,
                )
            size = len(part) + 1
            if b'"deepct"' in part:  # an engine repeats each word, and Elasticsearch takes requests of 100 MB
                size += sum((len(word) + 1) * int(times) for word, times in _FREQUENCY.findall(part))
            # An upper bound of the values: those in strings are counted too.
            values = max(len(part.translate(None, _NO_VALUES)), part.count(b'"') // 4)
            fits = batch_bytes + size <= MOST_BATCH_BYTES and batch_values + values <= MOST_BATCH_VALUES
            if batch and not (fits and len(batch) < self._documents):
                yield batch
                batch, batch_bytes, batch_values = [], 0, 0
            batch.append(part)
            batch_bytes += size
            batch_values += values
        if batch:
            yield batch

    def send(self, batch: list[bytes]) -> Steps[list[FanOutReport]]:
        """Sends a batch until every backend has taken it, in smaller calls where the gateway has become slow."""
        reports: list[FanOutReport] = []
        repetition, after_s, last = Repetition(PATIENCE_S, UNFINISHED), 0.0, None
        while batch:
            part = batch[: self._documents]
            late: set[str] = set()
            try:
                reports.append((yield from self._attempt(part, late, after_s, last)))
            except RetrievalError as error:
                if self.ended:
                    raise
                after_s, last = repetition.pause_s(error), error
                self.report.repetitions += 1
                if late:  # sent again, they would replace the newer ones
                    batch = [document for document in batch if from_json(document).get("id") not in late]
            else:
                batch = batch[len(part) :]
                repetition, after_s, last = Repetition(PATIENCE_S, UNFINISHED), 0.0, None
            self.report.overtaken.update(late)
        return reports

    def _attempt(
        self, documents: list[bytes], late: set[str], after_s: float, last: RetrievalError | None
    ) -> Steps[FanOutReport]:
        began = time.monotonic() + after_s
        body = documents_body(documents, self._build)
        try:
            request = Request("POST", self._path, body, MOST_CALL_S, after_s, last)
            report = yield from attempt(FanOutReport.model_validate_json, request)
            _expect_taken(report, late)
        except RetrievalError as error:
            self._slow_down(len(documents), time.monotonic() - began)
            if error.status == 429:
                self._window = max(1.0, self._window / 2)
            raise
        seconds = time.monotonic() - began
        self._window = min(MOST_IN_FLIGHT, self._window + 1 / self._window)
        if seconds < QUICK_S:
            self._documents = max(self._documents, min(2 * len(documents), MOST_BATCH_DOCUMENTS))
        self._slow_down(len(documents), seconds)
        return report

    def _slow_down(self, documents: int, seconds: float) -> None:
        # From that call, not from the present number: calls that were in flight together are slow together.
        if seconds > SLOW_S:
            self._documents = min(self._documents, max(1, int(documents * SLOW_S / seconds)))

    def taken(self, reports: list[FanOutReport]) -> None:
        """Learns of a batch that every backend took."""
        for report in reports:
            self.report.documents += report.documents
            self.report.batches += 1
            self.report.stripped_characters += report.stripped_characters
            self.report.undeclared_metadata.update(report.undeclared_metadata)
            for outcome in report.services:
                if isinstance(outcome.report, IndexReport):
                    load = self.report.backends.setdefault(outcome.backend, BackendLoad())
                    load.indexed += outcome.report.indexed
                    load.unchanged += outcome.report.unchanged
                    load.encoded += outcome.report.encoded
                    load.read = _added(load.read, outcome.report.read)
        if self._progress is not None:
            self._progress(self.report)


def _added(total: ReadTokens | None, more: ReadTokens | None) -> ReadTokens | None:
    if total is None or more is None:
        return total or more
    sums = {name: getattr(total, name) + count for name, count in more}
    return ReadTokens(**{**sums, "limit": max(total.limit, more.limit)})


def _expect_taken(report: FanOutReport, late: set[str]) -> None:
    """Raises RetrievalError for a batch that was not taken whole. Only refused documents are not worth a repetition.
    Adds to `late` the ids of overtaken ones: those are settled."""
    failed: list[str] = []
    refused: list[str] = []
    waiting: list[str] = []
    for outcome in report.services:
        if outcome.status == "failed":
            failed.append(f"{outcome.backend}: {outcome.reason}")
        elif isinstance(outcome.report, IndexReport):
            for item in outcome.report.errors:
                if item.overtaken:
                    late.add(item.id)
                else:
                    (waiting if item.retryable else refused).append(f"{outcome.backend}: {item.id}: {item.reason}")
    reasons = "; ".join([*failed, *refused[:3], *waiting[:3]])
    if refused and not failed:
        raise RetrievalError("documents-refused", f"documents were refused: {reasons}", 422)
    if failed or waiting:
        raise RetrievalError("incomplete", f"a batch was not taken whole: {reasons}", 503 if failed else 429)
