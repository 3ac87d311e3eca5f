"""Computes percentiles of response times by nearest rank, and the intervals they lie in. Pure.

They are always observed values, never interpolated.
"""

import math
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    FiniteFloat,
    GetCoreSchemaHandler,
    ModelWrapValidatorHandler,
    ValidatorFunctionWrapHandler,
)
from pydantic_core import CoreSchema, core_schema

from services.contracts.base import Count, Wire

CONFIDENCE = 0.95  # of every interval of load that does not name another

Interval = tuple[FiniteFloat, FiniteFloat]
# With fewer samples a 99th percentile is mostly chance, so none is reported (MLPerf's early stopping needs 662).
MIN_SAMPLES_FOR_P99 = 662
# By so much the later half's median may differ from the earlier half's, besides what chance explains.
DRIFT_LIMIT = 0.10
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

    As a field it is a number in JSON. It takes its validity from the model around it that uses `carry_validity`.
    """

    _ms: float | None
    valid: bool | None  # None: of a release that did not record it

    @property
    def held_ms(self) -> float | None:
        """The milliseconds, to judge or draw them; None where they do not hold."""
        return None if self.valid is False else self._ms

    @property
    def unchecked_ms(self) -> float | None:
        """The milliseconds, valid or not: to keep or mark them beside their validity."""
        return self._ms

    def cell(self, digits: int = 1) -> str:
        """Renders the number, marked where it does not hold, or a dash."""
        return "–" if self._ms is None else f"{self._ms:z.{digits}f}{DOUBTFUL if self.valid is False else ''}"

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


class Latency(Wire):
    """Milliseconds from sending a request to the last byte read, over the `n` answered queries."""

    model_config = ConfigDict(revalidate_instances="always")

    p50: Timed
    p95: Timed
    p99: Timed  # null below 662 samples
    # 95 %, from order statistics (binomial); null as p99, and where no sample is far enough out.
    p99_interval: tuple[Timed, Timed] | None = None
    max: Timed
    n: Count
    drift: FiniteFloat | None  # median of the later half over that of the earlier half; far from 1: not stationary
    valid: bool | None = None  # whether the times hold, as `timing_valid` of the report; null: none, or an old release


def percentile(ordered: Sequence[float], share: float) -> float:
    """Returns the nearest-rank percentile of ascending values: the smallest that `share` of them do not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def summarise(samples_ms: Sequence[float]) -> Latency:
    """Computes the figures of samples in the order of measurement."""
    if not samples_ms:
        return Latency(p50=None, p95=None, p99=None, max=None, n=0, drift=None)
    ordered = sorted(samples_ms)
    half = len(samples_ms) // 2
    earlier, later = sorted(samples_ms[:half]), sorted(samples_ms[half:])
    has_tail = len(ordered) >= MIN_SAMPLES_FOR_P99
    return Latency(
        p50=percentile(ordered, 0.50),
        p95=percentile(ordered, 0.95),
        p99=percentile(ordered, 0.99) if has_tail else None,
        p99_interval=percentile_interval(ordered, 0.99) if has_tail else None,
        max=ordered[-1],
        n=len(ordered),
        drift=percentile(later, 0.5) / percentile(earlier, 0.5) if half and earlier[0] > 0 else None,
    )


def drift_in_words(ratio: float) -> str:
    """Returns how far times are from those before them: `took 12% longer than`, `took 49% less time than`."""
    return f"took {ratio - 1:.0%} longer than" if ratio > 1 else f"took {1 - ratio:.0%} less time than"
