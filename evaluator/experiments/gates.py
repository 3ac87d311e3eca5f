"""Judges figures of a run against the bounds that its experiment sets under `gates:`. Pure: takes figures, no report.

A gate holds where its value is known and within the bound. A value that was not measured, or that a doubtful time has
made null, does not hold.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, Self, get_args

from pydantic import Field, FiniteFloat, model_validator

from services.contracts.base import Wire

GateName = Literal["p99_ms", "ndcg_at_10", "errors", "degraded", "cpu_ms"]
Milliseconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Gates(Wire):
    """Bounds of the figures of every pipeline. Only those that are given are judged."""

    p99_ms: Milliseconds | None = None  # at most
    ndcg_at_10: Share | None = None  # at least
    errors: Share | None = None  # at most: queries without an answer; under load, requests without one in time
    degraded: Share | None = None  # at most: answers of which a stage was skipped or cut, as a share of what was sent
    cpu_ms: Milliseconds | None = None  # at most: a query, over all measured processes

    @model_validator(mode="after")
    def _has_a_bound(self) -> Self:
        if not self.model_dump(exclude_none=True):
            raise ValueError("name at least one of p99_ms, ndcg_at_10, errors, degraded and cpu_ms")
        return self


class GateOutcome(Wire):
    """One gate of one pipeline."""

    pipeline: str
    traffic: str | None  # of a load: `20/s`, `8 in flight (capacity)`, …; null: one query at a time
    gate: GateName
    value: FiniteFloat | None
    bound: FiniteFloat
    held: bool
    reason: str | None  # why there is no value

    @property
    def what(self) -> str:
        """Pipeline, traffic and gate in words."""
        return f"{self.pipeline}{f' at {self.traffic}' if self.traffic else ''}: {self.gate}"

    @property
    def sentence(self) -> str:
        """Value, bound and whether it held, in a line."""
        value = f"no value ({self.reason})" if self.value is None else f"{self.value:.4g}"
        least = "at least" if self.gate == "ndcg_at_10" else "at most"
        return f"{self.what} {value}, {least} {self.bound:g}: {'held' if self.held else 'NOT HELD'}"


@dataclass(frozen=True, slots=True)
class GatedFigures:
    """Measured figures of a pipeline, by the names of the gates; `missing` states why a figure is None."""

    pipeline: str
    traffic: str | None
    p99_ms: float | None
    ndcg_at_10: float | None
    errors: float | None
    degraded: float | None
    cpu_ms: float | None
    missing: dict[GateName, str]
    unfit: frozenset[GateName] = frozenset()  # gates of figures that this traffic cannot have; they are not judged


def judge_gates(gates: Gates | None, figures: Iterable[GatedFigures]) -> Iterator[GateOutcome]:
    """Yields the outcome of every gate that fits the figures, for every pipeline; none without gates."""
    if gates is None:
        return
    for measured in figures:
        for gate in get_args(GateName):
            bound, value = getattr(gates, gate), getattr(measured, gate)
            if bound is not None and gate not in measured.unfit:
                held = value is not None and (value >= bound if gate == "ndcg_at_10" else value <= bound)
                yield GateOutcome(
                    pipeline=measured.pipeline,
                    traffic=measured.traffic,
                    gate=gate,
                    value=value,
                    bound=bound,
                    held=held,
                    reason=measured.missing[gate] if value is None else None,
                )
