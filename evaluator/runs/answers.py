"""Owns `answers/<arm>.jsonl`: one line per query of an arm with its outcome, in sending order. Sends nothing.

Phases: `warmup`; `measured`, the timed requests; `again`, the same requests for their time alone, where they were
disturbed; `deep`, the same queries again for more hits, outside the timing.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, Self, TypeVar

from pydantic import FiniteFloat, ValidationError, model_validator

from evaluator.client.cached_results import CachedResults
from evaluator.errors import EvaluationError
from services.contracts.base import Count, Wire
from services.contracts.query import Degradation
from services.files.regular_file import open_regular

Phase = Literal["warmup", "measured", "again", "deep"]


class AnswerOutcome(Wire):
    """Outcome of one query in one arm, without its hits."""

    query: str
    phase: Phase
    disturbed: bool = False  # others took CPU meanwhile (machine/machine_conditions.py)
    latency_ms: FiniteFloat | None = None  # None: no answer
    hits: Count = 0
    excluded_self: bool = False
    timings_ms: dict[str, FiniteFloat] = {}  # as the gateway reports them, by stage
    degraded: tuple[Degradation, ...] = ()
    models: dict[str, str] = {}  # by rerank stage
    cached: CachedResults = {}
    error: str | None = None  # the kind (client.GatewayError)
    detail: str | None = None
    request_id: str | None = None
    generation: str | None = None
    fingerprint: str | None = None


Outcome = TypeVar("Outcome", bound=AnswerOutcome)


class AnswerRecord(AnswerOutcome):
    """A line of `answers/<arm>.jsonl`."""

    ranking: tuple[tuple[str, FiniteFloat], ...] = ()  # id and score of every hit, best first

    @model_validator(mode="after")
    def _counted(self) -> Self:
        if self.hits != len(self.ranking):
            raise ValueError("hits: not the length of ranking")
        return self

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the hits, best first."""
        return tuple(identity for identity, _ in self.ranking)

    @property
    def line(self) -> str:
        """The record as a line of its file."""
        return self.model_dump_json(exclude_defaults=True) + "\n"


def read_answers(path: Path) -> Iterator[AnswerRecord]:
    """Yields the records in file order. Raises EvaluationError with `file:line` for a line that is none."""
    yield from _records(path, AnswerRecord)


def read_outcomes(path: Path) -> Iterator[AnswerOutcome]:
    """Yields the records in file order without their hits, a few hundred bytes each. Raises as `read_answers` does."""
    yield from _records(path, AnswerOutcome)


def records_of(records: Iterable[AnswerRecord], phase: Phase) -> dict[str, AnswerRecord]:
    return {record.query: record for record in records if record.phase == phase}


def drop_torn_line(path: Path) -> bool:
    """Cuts the last line off when a killed process wrote only a part of it. Returns whether it did."""
    end = kept = 0
    for _, line in _lines(path):
        end += len(line)
        if line.endswith(b"\n"):
            kept = end
    if kept < end:
        os.truncate(path, kept)
    return kept < end


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with open_regular(path) as file:
        yield from enumerate(file, start=1)


def _records(path: Path, model: type[Outcome]) -> Iterator[Outcome]:
    for number, line in _lines(path):
        try:
            yield model.from_record(line)
        except ValidationError as error:
            raise EvaluationError(
                f"{path}:{number}: no answer of this version; delete {path.parent} and rank or import again"
            ) from error
