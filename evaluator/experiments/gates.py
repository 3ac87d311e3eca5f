"""Judges figures of a run against the bounds that its experiment sets under `gates:`. Pure: takes figures, no report.

A gate holds where its value is known and within the bound. A value that was not measured, or that a doubtful time has
made null, does not hold. A bound may be relative to the baseline, measured in the same run under the same traffic.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import not_
from typing import Annotated, Literal, Self, get_args

from pydantic import BeforeValidator, Field, FiniteFloat, model_validator

from evaluator.metrics.verdict import PairedComparison, no_worse_gate
from services.contracts.base import Name, Wire

GateName = Literal["p95_ms", "p99_ms", "ndcg_at_10", "errors", "degraded", "cpu_ms"]


def _bound(relative: str, least: float, most: float, expected: str, value: object) -> object:
    """Reads a number from `least` to `most`, or a text of the pattern `relative`, whose group is a number above 0."""
    if isinstance(value, str) and (found := re.fullmatch(relative, value, re.ASCII)) and 0 < float(found[1]) <= 1e9:
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most:
        return float(value)
    raise ValueError(f"write {expected}")


_TIME = (r"(\d+(?:\.\d+)?) \* baseline", 1e-9, 1e9, "milliseconds above 0, or times the baseline's: `1.2 * baseline`")
_LESS = (r"baseline - (0?\.\d+)", 0.0, 1.0, "a share from 0 to 1, or less than the baseline's: `baseline - 0.01`")
Milliseconds = Annotated[float | str, BeforeValidator(partial(_bound, *_TIME))]
Quality = Annotated[float | str, BeforeValidator(partial(_bound, *_LESS))]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Bounds(Wire):
    """Bounds of figures. Only those that are given are judged."""

    p95_ms: Annotated[Milliseconds | None, Field(exclude_if=not_)] = None  # at most; written only if set
    p99_ms: Milliseconds | None = None  # at most
    ndcg_at_10: Quality | None = None  # at least
    errors: Share | None = None  # at most: queries without an answer; under load, requests without one in time
    degraded: Share | None = None  # at most: answers of which a stage was skipped or cut, as a share of what was sent
    cpu_ms: Milliseconds | None = None  # at most: a query, over all measured processes

    @model_validator(mode="after")
    def _has_a_bound(self) -> Self:
        if not self.model_dump(exclude_none=True):
            raise ValueError(f"name at least one of {', '.join(get_args(GateName))}")
        return self


class Gates(Bounds):
    """Bounds of every pipeline; `pipelines`: of one, in their place."""

    pipelines: Annotated[dict[Name, Bounds], Field(exclude_if=not_)] = {}

    def bound(self, gate: GateName, pipeline: str) -> float | str | None:
        """Returns the bound of a pipeline's figure; a text is relative to the baseline."""
        every: float | str | None = getattr(self, gate)
        own: float | str | None = getattr(self.pipelines.get(pipeline), gate, None)
        return every if own is None else own

    def relative_to_itself(self, pipelines: Sequence[str], baseline: str) -> GateName | None:
        """Returns a gate whose bound is relative to the baseline and of the baseline alone; None without one."""
        for gate in get_args(GateName):
            own = getattr(self.pipelines.get(baseline), gate, None)
            if isinstance(own, str) or (isinstance(getattr(self, gate), str) and len(pipelines) == 1):
                found: GateName = gate
                return found
        return None

    def bounds(self, gate: GateName) -> list[float | str]:
        """Returns the bounds of a figure, of every pipeline and of single ones."""
        return [bound for of in (self, *self.pipelines.values()) if (bound := getattr(of, gate)) is not None]


class GateOutcome(Wire):
    """One gate of one pipeline."""

    pipeline: str
    traffic: str | None  # of a load: `20/s`, `8 in flight (capacity)`, …; null: one query at a time
    gate: GateName
    value: FiniteFloat | None
    bound: FiniteFloat | None  # null: relative to a figure that the baseline lacks
    held: bool
    reason: str | None  # why there is no value; of quality relative to the baseline, what is shown
    relative: str = ""  # the bound as it was written, where it is relative to the baseline

    @property
    def what(self) -> str:
        """Pipeline, traffic and gate in words."""
        return f"{self.pipeline}{f' at {self.traffic}' if self.traffic else ''}: {self.gate}"

    @property
    def sentence(self) -> str:
        """Value, bound and whether it held, in a line."""
        value = f"no value ({self.reason})" if self.value is None else f"{self.value:.4g}"
        least = "at least" if self.gate == "ndcg_at_10" else "at most"
        number = "" if self.bound is None else f"{self.bound:g}"
        bound = f"{number} ({self.relative})" if number and self.relative else number or self.relative
        shown = f": {self.reason}" if self.reason is not None and self.value is not None else ""
        return f"{self.what} {value}, {least} {bound}: {'held' if self.held else 'NOT HELD'}{shown}"


@dataclass(frozen=True, slots=True)
class GatedFigures:
    """Measured figures of a pipeline, by the names of the gates; `missing` states why a figure is None."""

    pipeline: str
    traffic: str | None
    p95_ms: float | None
    p99_ms: float | None
    ndcg_at_10: float | None
    errors: float | None
    degraded: float | None
    cpu_ms: float | None
    missing: dict[GateName, str]
    least: Mapping[GateName, float | None] = field(
        default_factory=dict
    )  # of times, where other work leaves an interval
    unfit: frozenset[GateName] = frozenset()  # gates of figures that this traffic cannot have; they are not judged
    verdict: PairedComparison | None = None  # of nDCG@10, against the baseline
    losses: tuple[str, ...] = ()  # what both lost of it, as `no_worse_gate` takes them


def judge_gates(gates: Gates | None, figures: Iterable[GatedFigures], baseline: str) -> Iterator[GateOutcome]:
    """Yields the outcome of every gate that fits the figures, for every pipeline; none without gates.

    What is relative to the baseline is not judged of itself, and of quality only where queries were sent one at a time.
    """
    every = [] if gates is None else list(figures)
    known = {(one.pipeline, one.traffic): one for one in every}
    for measured in every:
        pipeline, traffic = measured.pipeline, measured.traffic
        for gate in get_args(GateName):
            bound = gates.bound(gate, pipeline) if gates is not None and gate not in measured.unfit else None
            relative, quality = bound if isinstance(bound, str) else "", gate == "ndcg_at_10"
            if bound is None or (relative and (pipeline == baseline or (quality and traffic is not None))):
                continue
            value, limit, reason = _compared(measured, gate, bound, known.get((baseline, traffic)))
            held = value is not None and limit is not None and (value >= limit if quality else value <= limit)
            yield GateOutcome(
                pipeline=pipeline,
                traffic=traffic,
                gate=gate,
                value=value,
                bound=limit,
                held=held,
                reason=reason,
                relative=relative,
            )


def _compared(
    measured: GatedFigures, gate: GateName, bound: float | str, baseline: GatedFigures | None
) -> tuple[float | None, float | None, str | None]:
    """Returns value, bound and reason of an outcome. Quality relative to the baseline is read from its verdict."""
    value: float | None = getattr(measured, gate)
    if isinstance(bound, float):
        if value is None:
            return None, bound, measured.missing[gate]
        least = measured.least.get(gate)
        is_open = least is not None and least <= bound < value
        return value, bound, f"other work leaves it open from {least:.4g}, measure again" if is_open else None
    (number,) = map(float, re.findall(r"[0-9.]+", bound))
    if gate != "ndcg_at_10":
        theirs: float | None = getattr(baseline, gate, None)
        limit = None if theirs is None else number * theirs
        reason = measured.missing[gate] if value is None else "the baseline has none" if limit is None else None
        if value is None or theirs is None or baseline is None:
            return None, limit, reason
        lengthened = value > number * (baseline.least.get(gate) or theirs) and value <= number * theirs
        shortened = (measured.least.get(gate) or value) <= number * theirs < value
        return value, limit, "by the ratio of times beside other work" if lengthened or shortened else None
    if measured.verdict is None:
        return None, -number, "nDCG@10 has no verdict; name it first among the metrics"
    shown, interval = no_worse_gate(measured.verdict, number, measured.losses), measured.verdict.interval
    low = interval[0] if interval is not None and (interval[0] >= -number) == shown.passed else None
    return low, -number, shown.sentence.partition(": ")[2].removesuffix(".")
