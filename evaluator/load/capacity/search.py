"""Searches the highest Poisson rate at which p99 stays within a bound; sends nothing itself.

A rate is carried where at most 1 % of the requests take longer than the bound, and at most 1 % are lost (failed,
dropped or late) or degraded. The search doubles the rate to a bracket, bisects it, and asks for five more carried
measurements of the rate it found (MLPerf Inference, Server scenario). Every decision is pure; what measures a rate is
given.
"""

import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from pydantic import FiniteFloat

from evaluator.experiments.load_plan import CapacityPlan
from evaluator.load.statistics.share_test import FEWEST_REQUESTS, share_outcome
from evaluator.runs.latency import MIN_SAMPLES_FOR_P99, percentile
from services.contracts.base import Count, Wire

FIRST_RATE = 10.0
RESOLUTION = 1.03  # between the rate found and the lowest one that was not carried
VERIFICATIONS = 5
# A search ends within some 20 measurements unless verifications keep failing.
MOST_POINTS = 60
# A queue that grows by a twentieth of the time passes a bound of half a second only after 10 s.
LEAST_SECONDS = 10.0

RateOutcome = Literal["carried", "not carried", "open", "cannot tell"]
CapacityOutcome = Literal["found", "none", "cannot tell"]


@dataclass(frozen=True, slots=True)
class RateSample:
    """What came of some seconds at one rate: each request, in planned order."""

    counted_ms: Sequence[float]  # one without an answer counts with at least its deadline
    lost: Sequence[bool]  # failed, dropped, late, or degraded
    faults: tuple[str, ...] = ()  # why these times show nothing of the system under test


class MeasureRate(Protocol):
    """Sends requests at a rate for `warmup_s + seconds` and returns those of the last `seconds`."""

    def __call__(self, rate: float, warmup_s: float, seconds: float, seed: str) -> Awaitable[RateSample]:
        """Returns what came of them."""
        ...


class MeasuredRate(Wire):
    """One measurement of one rate."""

    rate: FiniteFloat  # requests a second
    seconds: FiniteFloat  # of sending, the warm-up too
    requests: Count  # without the warm-up
    over: Count  # requests that took longer than the bound
    lost: Count  # failed, dropped, late, or degraded
    p99_ms: FiniteFloat | None  # null below 662 requests, and where the outcome is `cannot tell`
    outcome: RateOutcome
    reasons: tuple[str, ...]  # of `cannot tell` and `open`


class FoundCapacity(Wire):
    """What a search found, and what it measured for it, in order."""

    bound_ms: FiniteFloat  # of p99
    outcome: CapacityOutcome
    rate: FiniteFloat | None  # null unless `found`
    reasons: tuple[str, ...]
    measured: tuple[MeasuredRate, ...]

    @property
    def verified(self) -> int:
        """How often the rate was carried after the measurement that found it."""
        return 0 if self.rate is None else _times_carried(self.measured, self.rate) - 1


async def find_capacity(
    plan: CapacityPlan,
    seed: str,
    measure: MeasureRate,
    on_measured: Callable[[MeasuredRate], None] = lambda one: None,
) -> FoundCapacity:
    """Measures rates until the capacity is found or stays unknown. Calls `on_measured` after each."""
    measured: list[MeasuredRate] = []
    while (rate := next_rate(measured, plan)) is not None:
        one = await measure_rate(rate, plan, f"{seed} {len(measured)}", measure)
        measured.append(one)
        on_measured(one)
    return found_capacity(measured, plan)


async def measure_rate(rate: float, plan: CapacityPlan, seed: str, measure: MeasureRate) -> MeasuredRate:
    """Measures one rate until its outcome is known, for `plan.point_seconds` at most, warm-ups included."""
    counted: list[float] = []
    lost: list[bool] = []
    spent_s, look = 0.0, 0
    outcome: RateOutcome = "open"
    reasons: tuple[str, ...] = ()
    while outcome == "open":
        seconds = next_seconds(rate, len(counted), spent_s, plan)
        if seconds is None:
            reasons = (f"{plan.point_seconds:g} s at {rate:.3g}/s are too short to tell",)
            break
        sample = await measure(rate, plan.warmup_seconds, seconds, f"{seed} {look}")
        counted += sample.counted_ms
        lost += sample.lost
        spent_s, look, reasons = spent_s + plan.warmup_seconds + seconds, look + 1, sample.faults
        outcome = "cannot tell" if reasons else rate_outcome(counted, lost, plan.p99_ms)
    has_p99 = outcome != "cannot tell" and len(counted) >= MIN_SAMPLES_FOR_P99
    return MeasuredRate(
        rate=rate,
        seconds=spent_s,
        requests=len(counted),
        over=sum(value > plan.p99_ms for value in counted),
        lost=sum(lost),
        p99_ms=percentile(sorted(counted), 0.99) if has_p99 else None,
        outcome=outcome,
        reasons=reasons,
    )


def rate_outcome(counted_ms: Sequence[float], lost: Sequence[bool], bound_ms: float) -> RateOutcome:
    """Returns what requests show of a rate: both shares must be within 1 %."""
    outcomes = {share_outcome([value > bound_ms for value in counted_ms]), share_outcome(lost)}
    if "above" in outcomes:
        return "not carried"
    return "carried" if outcomes == {"within"} else "open"


def next_seconds(rate: float, requests: int, spent_s: float, plan: CapacityPlan) -> float | None:
    """Returns for how long to send next, without the warm-up, or None where the time left is too short for a look.

    The first look is as long as a rate without a miss needs; each later one doubles the requests, so that looks are
    few.
    """
    left_s = plan.point_seconds - spent_s - plan.warmup_seconds
    least_s = min(LEAST_SECONDS, (plan.point_seconds - plan.warmup_seconds) / 4)
    wanted_s = requests / rate if requests else requests_in_first_look() / rate
    if left_s < (least_s if requests else wanted_s):
        return None
    seconds = max(wanted_s, least_s)
    # The last look takes all the time.
    return left_s if left_s - seconds - plan.warmup_seconds < least_s else seconds


def requests_in_first_look() -> float:
    """Returns how many requests are planned so that, arrivals being random, enough of them come 19 times in 20."""
    return FEWEST_REQUESTS + 1.65 * math.sqrt(FEWEST_REQUESTS)


def next_rate(measured: Sequence[MeasuredRate], plan: CapacityPlan) -> float | None:
    """Returns the rate to measure next; None: the search has ended."""
    if not measured:
        return _three_digits(max(FIRST_RATE, 2 * least_rate(plan)))
    if measured[-1].outcome == "cannot tell":
        # A disturbance may pass: the rate gets a second chance.
        return None if _disturbed(measured) else measured[-1].rate
    if len(measured) >= MOST_POINTS:
        return None
    low, high = _bracket(measured)
    if high is None:
        assert low is not None  # something was measured, and nothing was too much
        return _three_digits(2 * low)
    if low is None:
        lowest = _three_digits(least_rate(plan) * 1.005)  # so that rounding leaves the time for a look
        return max(_three_digits(high / 2), lowest) if high > lowest else None
    if high / low > RESOLUTION:
        return _three_digits(math.sqrt(low * high))
    return low if _times_carried(measured, low) <= VERIFICATIONS else None


def found_capacity(measured: Sequence[MeasuredRate], plan: CapacityPlan) -> FoundCapacity:
    """Says what a search that has ended found."""
    low, high = _bracket(measured)
    outcome: CapacityOutcome = "cannot tell"
    rate: float | None = None
    reasons: tuple[str, ...] = ()
    if _disturbed(measured):
        reasons = tuple(f"at {measured[-1].rate:.3g}/s: {reason}" for reason in measured[-1].reasons)
    elif low is not None and high is not None and _times_carried(measured, low) > VERIFICATIONS:
        outcome, rate = "found", low
    elif low is None and len(measured) < MOST_POINTS:
        # The search went down to the lowest rate; its last outcome decides, whatever was open or disturbed above it.
        lowest = list(_told(measured))[-1]
        outcome = "none" if lowest.outcome == "not carried" else "cannot tell"
        too_low = f"lower than {least_rate(plan):.3g}/s cannot be told in {plan.point_seconds:g} s"
        reasons = (too_low,) if outcome == "none" else lowest.reasons
    else:
        reasons = (f"no rate was carried {VERIFICATIONS + 1} times in {len(measured)} measurements",)
    return FoundCapacity(bound_ms=plan.p99_ms, outcome=outcome, rate=rate, reasons=reasons, measured=tuple(measured))


def least_rate(plan: CapacityPlan) -> float:
    """Returns the rate below which the time of a measurement is too short to show that it is carried."""
    return requests_in_first_look() / (plan.point_seconds - plan.warmup_seconds)


def _bracket(measured: Sequence[MeasuredRate]) -> tuple[float | None, float | None]:
    """Returns the highest rate that was carried each time below the lowest one that was not, and this one."""
    high = min((one.rate for one in _told(measured) if one.outcome != "carried"), default=None)
    carried = [one.rate for one in _told(measured) if high is None or one.rate < high]
    return max(carried, default=None), high


def _told(measured: Sequence[MeasuredRate]) -> Iterator[MeasuredRate]:
    return (one for one in measured if one.outcome != "cannot tell")


def _times_carried(measured: Sequence[MeasuredRate], rate: float) -> int:
    return sum(one.rate == rate and one.outcome == "carried" for one in measured)


def _disturbed(measured: Sequence[MeasuredRate]) -> bool:
    return len(measured) >= 2 and all(one.outcome == "cannot tell" for one in measured[-2:])


def _three_digits(rate: float) -> float:
    return float(f"{rate:.3g}")


class CapacityMultiple(Wire):
    """Figures at a multiple of the capacity; all others are in the point of this rate in `points` of load.json."""

    multiple: FiniteFloat
    rate: FiniteFloat
    goodput: FiniteFloat  # answers in time a second
    ndcg_a_second: FiniteFloat  # nDCG@10 summed over the requests of a second; late and lost ones add 0
    p95_ms: FiniteFloat | None
    p99_ms: FiniteFloat | None = None  # null below 662 requests
    timing_valid: bool


class CapacityReport(Wire):
    """The capacity of a pipeline: the highest Poisson rate found whose p99 stays within the bound."""

    pipeline: str
    found: FoundCapacity
    multiples: tuple[CapacityMultiple, ...]  # none unless `found`
    knee: FiniteFloat | None  # a swept rate; null: times below the capacity are not valid
    sentence: str
