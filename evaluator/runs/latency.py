"""Computes percentiles of response times by nearest rank, and the intervals they lie in. Pure.

They are always observed values, never interpolated.
"""

import math
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import median
from typing import TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    FiniteFloat,
    GetCoreSchemaHandler,
    ModelWrapValidatorHandler,
    ValidatorFunctionWrapHandler,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from services.contracts.base import Count, Wire

CONFIDENCE = 0.95  # of every interval of load that does not name another

Interval = tuple[FiniteFloat, FiniteFloat]
# With fewer samples a 99th percentile is mostly chance, so none is reported (MLPerf's early stopping needs 662).
MIN_SAMPLES_FOR_P99 = 662
# A figure is marked where what disturbed its answers leaves it more than this part of itself.
WIDE = 0.1
DOUBTFUL = "?"  # behind every time that does not hold
MARKED = f"marked with {DOUBTFUL}"  # the status of such times
_carried: ContextVar[bool | None] = ContextVar("validity of the times that are being read", default=None)
Model = TypeVar("Model", bound=BaseModel)


def percentile_interval(ordered: Sequence[float], share: float) -> Interval | None:
    """Returns two of the ascending values between which the percentile lies with 95 % confidence, or None.

    The number of values below the percentile is binomial; the values are taken as independent (Conover 1999, 3.2).
    """
    low, high = _ranks(len(ordered), share)
    return (ordered[low - 1], ordered[high - 1]) if low >= 1 and high <= len(ordered) else None


# The figures of a point are of the same number of requests, and a quantile by scipy takes a millisecond.
@lru_cache(maxsize=1024)
def _ranks(n: int, share: float) -> tuple[int, int]:
    from scipy.stats import binom  # type: ignore[import-untyped]  # ships no types

    low, high = binom.ppf([(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], n, share)
    return int(low), int(high) + 1


def median_interval(ordered: Sequence[float]) -> tuple[Interval, float]:
    """Returns two of at least two ascending values between which the median lies, and with which confidence.

    The two are as near to the middle as 95 % allows. Fewer than 6 values do not reach it: then the smallest and the
    greatest, with the confidence they have, 1 - 2^(1-n) (Conover 1999, 3.2).
    """
    from scipy.stats import binom

    n = len(ordered)
    # The median is left of the value at `rank`, or right of its mirror, with these chances.
    outside: list[float] = (2 * binom.cdf(range(n // 2), n, 0.5)).tolist()
    rank = max((at for at, chance in enumerate(outside) if chance <= 1 - CONFIDENCE), default=0)
    return (ordered[rank], ordered[n - 1 - rank]), 1 - outside[rank]


@dataclass(frozen=True, slots=True)
class Timed:
    """Milliseconds, None where there are none, and whether they hold. None is shown, drawn or judged without both.

    As a field it is a number in JSON. It takes its validity from the model around it that uses `carry_validity`, and
    its least value from the model that it is a field of (`bounded`).
    """

    _ms: float | None
    valid: bool | None  # None: of a release that did not record it
    least_ms: float | None = None  # the true value lies between it and the milliseconds; None: nothing was disturbed

    @property
    def holds(self) -> bool:
        """Whether nothing is known against the milliseconds, and what was disturbed leaves them within a tenth."""
        return self.valid is not False and not self.wide

    @property
    def held_ms(self) -> float | None:
        """The milliseconds, to judge or draw them; None where they do not hold."""
        return self._ms if self.holds else None

    @property
    def unchecked_ms(self) -> float | None:
        """The milliseconds, valid or not: to keep or mark them beside their validity."""
        return self._ms

    def cell(self, digits: int = 1) -> str:
        """Renders the number, or the interval that it lies in, marked where it does not hold; or a dash."""
        if self._ms is None:
            return "–"
        most = f"{self._ms:z.{digits}f}{'' if self.holds else DOUBTFUL}"
        if not self.wide:
            return most
        return f"{self.least_ms:.{digits}f} to {most}" if self.least_ms else f"at most {most}"

    @property
    def wide(self) -> bool:
        """Whether what was disturbed leaves the milliseconds an interval wider than a tenth of them."""
        return self._ms is not None and self.least_ms is not None and self._ms - self.least_ms > WIDE * self._ms

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Describes the field to pydantic: a finite number or null."""
        number = handler.generate_schema(FiniteFloat | None)
        written = core_schema.plain_serializer_function_ser_schema(lambda time: time.unchecked_ms, return_schema=number)
        return core_schema.no_info_wrap_validator_function(_timed, number, serialization=written)


def _timed(value: object, number: ValidatorFunctionWrapHandler) -> Timed:
    time = value if isinstance(value, Timed) else Timed(number(value), None)
    return time if _carried.get() is None else Timed(time.unchecked_ms, _carried.get())


def carry_validity(cls: type[Model], data: object, handler: ModelWrapValidatorHandler[Model]) -> Model:
    """Gives the field `timing_valid` of a model to every `Timed` in it; the wrap validator of the model.

    Models between them need `revalidate_instances="always"`: pydantic looks into no instance otherwise.
    """
    valid = data.get("timing_valid") if isinstance(data, Mapping) else None
    token = _carried.set(valid if isinstance(valid, bool) else None)
    try:
        return handler(data)
    finally:
        _carried.reset(token)


def bounded(figures: Model) -> Model:
    """Gives the field `least` of a model to its percentiles; the after validator of the model."""
    least: Mapping[str, float] = getattr(figures, "least", {})
    for name, ms in least.items():
        figures.__dict__[name] = replace(getattr(figures, name), least_ms=ms)  # the model is frozen
    return figures


class Latency(Wire):
    """Milliseconds from sending a request to the last byte read, over the `n` answered queries."""

    model_config = ConfigDict(revalidate_instances="always")
    _bounded = model_validator(mode="after")(bounded)

    p50: Timed
    p95: Timed
    p99: Timed  # null below 662 samples
    # 95 %, from order statistics (binomial); null as p99, and where no sample is far enough out.
    p99_interval: tuple[Timed, Timed] | None = None
    max: Timed
    n: Count
    disturbed: FiniteFloat = 0.0  # share of the answers during which others took CPU
    least: dict[str, FiniteFloat] = {}  # by figure, where answers were disturbed: `least_percentiles`
    valid: bool | None = None  # whether the times hold, as `timing_valid` of the report; null: none, or an old release


def percentile(ordered: Sequence[float], share: float) -> float:
    """Returns the nearest-rank percentile of ascending values: the smallest that `share` of them do not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def least_percentiles(ordered: Sequence[float], shares: Mapping[str, float], disturbed: float) -> dict[str, float]:
    """Returns the least value that each percentile can have without what disturbed a share of the ascending values.

    Disturbance only lengthens. At the least it pushed all of these values up from below the percentile, which is then
    at a rank lower by the share; the value observed there is at most what the undisturbed ones have (0 below all).
    """
    if not disturbed:
        return {}
    return {
        name: percentile(ordered, share - disturbed) if share > disturbed else 0.0 for name, share in shares.items()
    }


def summarise(samples_ms: Sequence[float], disturbed: float = 0.0) -> Latency:
    """Computes the figures of samples. `disturbed`: the share of them during which others took CPU."""
    if not samples_ms:
        return Latency(p50=None, p95=None, p99=None, max=None, n=0)
    ordered = sorted(samples_ms)
    has_tail = len(ordered) >= MIN_SAMPLES_FOR_P99
    shares = {"p50": 0.50, "p95": 0.95, **({"p99": 0.99} if has_tail else {}), "max": 1.0}
    return Latency(
        **{"p99": None} | {name: percentile(ordered, share) for name, share in shares.items()},
        p99_interval=percentile_interval(ordered, 0.99) if has_tail else None,
        n=len(ordered),
        disturbed=disturbed,
        least=least_percentiles(ordered, shares, disturbed),
    )


class PairedRatio(Wire):
    """How many times as long one pipeline takes as another: the median over the same queries, asked one after another.

    Other work meets both alike: the ratio holds where their times do not, if both use as many cores.
    """

    ratio: FiniteFloat
    interval: Interval  # of the median, from order statistics
    confidence: FiniteFloat  # of the interval: 95 %, or less of fewer than 6 queries
    queries: Count


def paired_ratio(first_ms: Mapping[str, float], second_ms: Mapping[str, float]) -> PairedRatio | None:
    """Returns the ratio second over first of times by query; None with fewer than two queries that both answered."""
    ratios = sorted(ms / first_ms[query] for query, ms in second_ms.items() if first_ms.get(query))
    if len(ratios) < 2:
        return None
    interval, confidence = median_interval(ratios)
    return PairedRatio(ratio=median(ratios), interval=interval, confidence=confidence, queries=len(ratios))
