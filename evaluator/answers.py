"""Owns `answers/<arm>.jsonl`: the outcome of every query of an arm, a line each, in sending order. Sends nothing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import FiniteFloat, ValidationError

from evaluator.errors import EvaluationError
from services.contracts.base import Wire
from services.contracts.query import Degradation


class AnswerRecord(Wire):
    """Outcome of one query in one arm."""

    query: str
    phase: Literal["warmup", "measured"]
    latency_ms: FiniteFloat | None = None  # None: no answer
    ranking: tuple[tuple[str, FiniteFloat], ...] = ()  # id and score of every hit, best first
    excluded_self: bool = False
    timings_ms: dict[str, FiniteFloat] = {}  # as the gateway reports them, by stage
    degraded: tuple[Degradation, ...] = ()
    models: dict[str, str] = {}  # by rerank stage
    error: str | None = None  # the kind (client.GatewayError)
    detail: str | None = None
    request_id: str | None = None
    generation: str | None = None
    fingerprint: str | None = None

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
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield AnswerRecord.model_validate_json(line)
            except ValidationError as error:
                raise EvaluationError(f"{path}:{number}: no answer of this version; rank again") from error
