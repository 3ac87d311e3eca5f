"""Reads and writes the requests of a point, `load/<pipeline>-<rate>.jsonl`, or a search, `<pipeline>-search.jsonl`.

One line per request, in planned order; those of a search for the capacity look by look.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from pydantic import FiniteFloat, ValidationError

from evaluator.client.cached_results import read_cached_results
from evaluator.client.client import GatewayError, search_answer
from evaluator.errors import EvaluationError
from evaluator.load.sending.load_loop import SendRecord
from evaluator.load.sending.traffic import LoadTarget, PlannedRequest
from evaluator.runs.answers import AnswerRecord
from evaluator.steps.rank import checked_ranking
from services.contracts.base import Count
from services.files.disk_writes import naming
from services.files.regular_file import open_regular

DROPPED = "dropped"  # k6's word: not sent, because too many were in flight
SampleOutcome = Literal["answered", "late", "dropped", "failed"]


class LoadSample(AnswerRecord):
    """One request. `latency_ms` counts from the planned send time to the last byte read; null without an answer."""

    number: Count  # by planned time, within its slice
    pipeline: str
    slice: Count = 0  # of the turns in which the pipelines share the time
    repeat: Count = 0
    planned_s: FiniteFloat  # since the start of the slice
    send_lag_ms: FiniteFloat | None = None  # sent after the planned time; null: dropped
    service_ms: FiniteFloat | None = None  # from sending to the last byte; null without an answer
    refused_ms: FiniteFloat | None = None  # from sending to the last byte of a refusal (429)
    counted_ms: FiniteFloat  # what figures count: the latency, or without an answer at least the deadline
    late: bool = False  # answered after the deadline
    ended_within: bool | None = None  # closed loop: within the seconds that count; null: the loop is open
    rate: FiniteFloat | None = None  # planned, a second, in a search for the capacity; null: the file is of one traffic

    @property
    def outcome(self) -> SampleOutcome:
        """The outcome of the request, in one word."""
        if self.error is None:
            return "late" if self.late else "answered"
        return "dropped" if self.error == DROPPED else "failed"

    @property
    def in_goodput(self) -> bool:
        """Whether the goodput counts it: answered in time and, in an open loop, planned after the warm-up.

        A closed loop sends as it gets answers. What ends within its seconds counts; all that is sent within them would
        be more than the system answered, by as many as are in flight.
        """
        counted = self.phase == "measured" if self.ended_within is None else self.ended_within
        return counted and self.outcome == "answered"


def read_sample(
    target: LoadTarget,
    request: PlannedRequest,
    record: SendRecord,
    number: int,
    phase: Literal["warmup", "measured"],
    ended_within: bool | None,
    request_id: str,
) -> LoadSample:
    """Reads the reply to a request."""
    elapsed_ms = (record.done_s - record.planned_s) * 1000
    unanswered = LoadSample(
        number=number,
        query=request.query,
        pipeline=request.pipeline,
        phase=phase,
        excluded_self=request.query in target.excluded,
        planned_s=record.planned_s,
        send_lag_ms=None if record.sent_s is None else (record.sent_s - record.planned_s) * 1000,
        counted_ms=max(elapsed_ms, target.deadline_ms),
        ended_within=ended_within,
        request_id=None if record.sent_s is None else request_id,
    )
    reply = record.reply
    if reply is None or record.sent_s is None:
        return unanswered.model_copy(update={"error": DROPPED})
    if reply.failure is not None:
        return unanswered.model_copy(update={"error": reply.failure, "detail": reply.body.decode() or None})
    try:
        answer = search_answer(reply.status, reply.body, reply.retry_after)
        excluded = (request.query,) if request.query in target.excluded else ()
        ranking = checked_ranking(answer, target.top, excluded)
    except GatewayError as error:
        refused_ms = (record.done_s - record.sent_s) * 1000 if reply.status == 429 else None
        return unanswered.model_copy(update={"error": error.kind, "detail": str(error), "refused_ms": refused_ms})
    return unanswered.model_copy(
        update={
            "latency_ms": elapsed_ms,
            "counted_ms": elapsed_ms,
            "service_ms": (record.done_s - record.sent_s) * 1000,
            "late": elapsed_ms > target.deadline_ms,
            "hits": len(ranking),
            "ranking": ranking,
            "timings_ms": answer.timings_ms,
            "degraded": answer.degraded,
            "models": answer.models,
            "cached": read_cached_results(reply.cached),
            "request_id": answer.request_id,
            "generation": answer.collection,
            "fingerprint": answer.pipeline.fingerprint,
        }
    )


def disturbed_share(samples: Sequence[LoadSample]) -> float:
    """Returns the share of the requests during which others took CPU; 0 of none."""
    return sum(sample.disturbed for sample in samples) / len(samples) if samples else 0.0


def counted_slices(samples: Iterable[LoadSample]) -> list[list[float]]:
    """Returns the counted milliseconds slice by slice, in the order of the samples."""
    slices: dict[tuple[int, int], list[float]] = {}
    for sample in samples:
        slices.setdefault((sample.repeat, sample.slice), []).append(sample.counted_ms)
    return list(slices.values())


def write_samples(path: Path, samples: Iterable[LoadSample], *, append: bool = False) -> None:
    """Writes the file of a point, or adds to it."""
    with naming(path), path.open("a" if append else "w", encoding="utf-8") as file:
        for sample in samples:
            file.write(sample.line)


def read_samples(path: Path) -> Iterator[LoadSample]:
    """Yields the samples in file order. Raises EvaluationError with `file:line` for a line that is none."""
    with open_regular(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                yield LoadSample.from_record(line)
            except ValidationError as error:
                raise EvaluationError(f"{path}:{number}: no sample of this version; run the load again") from error
