"""Searches the highest Poisson rate at which p99 stays within a bound, and reports it. Pure; sends nothing itself.

A rate is carried where at most 1 % of the requests take longer than the bound, and at most 1 % are lost (failed,
dropped or late) or degraded. The search doubles the rate to a bracket, bisects it, and asks for five more carried
measurements of the rate it found (MLPerf Inference, Server scenario). What measures a rate is given.

A share is `within` 1 % by the exact binomial test, and `above` it by a t test over blocks, because slow answers come in
bursts. Each further look is another chance to err. Chance of `within` at a share of exactly 1 %, of independent
requests:

    one look                       1 in 20
    a series of up to five looks   1 in 7
    six series in a row            below 1 in 10,000

The report is capacity.json, and a sentence:

    sentence := pipeline " carries " rate "/s with p99 <= " bound " ms in 5 of 5 verifications; " knee "." [ beside ]
              | pipeline " carries no rate with p99 <= " bound " ms: " reasons "."
              | "This machine cannot tell which rate " pipeline " carries with p99 <= " bound " ms: " reasons "."
    beside   := " Other work disturbed " share " of the requests: alone it carries this or more."
    knee     := "the knee is at " rate "/s" | "the knee cannot be told, because times below the capacity are not valid"
"""

import itertools
import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from pydantic import FiniteFloat

from evaluator.experiments.load_plan import CapacityPlan
from evaluator.load.points.point_report import LoadPointReport
from evaluator.pages.markdown_page import aligned
from evaluator.runs.latency import CONFIDENCE, MARKED, MIN_SAMPLES_FOR_P99, Timed, percentile
from evaluator.runs.run_folder import StepFile
from services.contracts.base import Count, Wire

FIRST_RATE = 10.0
RESOLUTION = 1.03  # between the rate found and the lowest one that was not carried
VERIFICATIONS = 5
# A search ends within some 20 measurements unless verifications keep failing.
MOST_POINTS = 60
# A queue that grows by a twentieth of the time passes a bound of half a second only after 10 s.
LEAST_SECONDS = 10.0
MOST_SHARE = 0.01
# So few requests, none of them a miss, are `within`: 299.
FEWEST_REQUESTS = math.ceil(math.log(1 - CONFIDENCE) / math.log(1 - MOST_SHARE))
# `above` ends the search in this direction, so that it has to be surer.
CONFIDENCE_ABOVE = 0.99
SHARE_BLOCKS = 20
CAPACITY = "capacity.json"
# Multiples of the capacity: five rates for the knee, and four for what is answered in time beyond it.
SWEEP = (0.1, 0.45, 0.8, 1.15, 1.5)
BEYOND = (1.0, 1.5, 2.0, 4.0)
MULTIPLES = tuple(sorted({*SWEEP, *BEYOND}))

T = TypeVar("T")
ShareOutcome = Literal["within", "above", "open"]
RateOutcome = Literal["carried", "not carried", "open", "cannot tell"]
CapacityOutcome = Literal["found", "none", "cannot tell"]


@dataclass(frozen=True, slots=True)
class RateSample:
    """The requests of some seconds at one rate, in planned order."""

    counted_ms: Sequence[float]  # one without an answer counts with at least its deadline
    lost: Sequence[bool]  # failed, dropped, late, or degraded
    faults: tuple[str, ...] = ()  # why these times show nothing of the system under test
    disturbed: Sequence[bool] = ()  # whether others took CPU during each; empty: during none


class MeasureRate(Protocol):
    """Sends requests at a rate for `warmup_s + seconds` and returns those of the last `seconds`."""

    def __call__(self, rate: float, warmup_s: float, seconds: float, seed: str) -> Awaitable[RateSample]:
        """Returns their outcomes."""
        ...


class MeasuredRate(Wire):
    """One measurement of one rate."""

    rate: FiniteFloat  # requests per second
    seconds: FiniteFloat  # of sending, the warm-up too
    requests: Count  # that were judged: without the warm-up, and without disturbed ones where enough others are left
    over: Count  # requests that took longer than the bound
    lost: Count  # failed, dropped, late, or degraded
    p99_ms: FiniteFloat | None  # null below 662 requests, and where the outcome is `cannot tell`
    disturbed: FiniteFloat = 0.0  # share of the requests during which others took CPU
    outcome: RateOutcome
    reasons: tuple[str, ...]  # of `cannot tell` and `open`


class FoundCapacity(Wire):
    """What a search found, and what it measured for it, in order.

    Other work only lengthens times: a rate that is carried beside it is carried without it.
    """

    bound_ms: FiniteFloat  # of p99
    outcome: CapacityOutcome
    rate: FiniteFloat | None  # null unless `found`
    reasons: tuple[str, ...]
    measured: tuple[MeasuredRate, ...]

    @property
    def verified(self) -> int:
        """How often the rate was carried after the measurement that found it."""
        return 0 if self.rate is None else _times_carried(self.measured, self.rate) - 1

    @property
    def disturbed(self) -> float:
        """The share of all requests during which others took CPU."""
        requests = sum(at.requests for at in self.measured)
        return sum(at.disturbed * at.requests for at in self.measured) / requests if requests else 0.0


class CapacityMultiple(Wire):
    """Figures at a multiple of the capacity; all others are in the point of this rate in `points` of load.json."""

    multiple: FiniteFloat
    rate: FiniteFloat
    goodput: FiniteFloat  # answers in time per second
    ndcg_a_second: FiniteFloat  # nDCG@10 summed over the requests of a second; late and lost ones add 0
    p95_ms: FiniteFloat | None
    p99_ms: FiniteFloat | None = None  # null below 662 requests, and where it does not hold
    timing_valid: bool


class CapacityReport(Wire):
    """The capacity of a pipeline: the highest Poisson rate found whose p99 stays within the bound."""

    pipeline: str
    found: FoundCapacity
    multiples: tuple[CapacityMultiple, ...]  # none unless `found`
    knee: FiniteFloat | None  # a swept rate; null: times below the capacity are not valid
    sentence: str


class CapacityFile(StepFile):
    """capacity.json: one report per pipeline, in the order of the experiment."""

    made_from: dict[str, str]
    capacities: tuple[CapacityReport, ...]


async def find_capacity(
    plan: CapacityPlan,
    seed: str,
    measure: MeasureRate,
    on_measured: Callable[[MeasuredRate], None] = lambda measurement: None,
) -> FoundCapacity:
    """Measures rates until the capacity is found or stays unknown. Calls `on_measured` after each."""
    measured: list[MeasuredRate] = []
    while (rate := next_rate(measured, plan)) is not None:
        measured.append(await measure_rate(rate, plan, f"{seed} {len(measured)}", measure))
        on_measured(measured[-1])
    return found_capacity(measured, plan)


async def measure_rate(rate: float, plan: CapacityPlan, seed: str, measure: MeasureRate) -> MeasuredRate:
    """Measures one rate until its outcome is known, for `plan.point_seconds` at most, warm-ups included."""
    counted: list[float] = []
    lost: list[bool] = []
    disturbed: list[bool] = []
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
        disturbed += sample.disturbed or [False] * len(sample.lost)
        judged = _judged(disturbed)
        spent_s, look, reasons = spent_s + plan.warmup_seconds + seconds, look + 1, sample.faults
        outcome = "cannot tell" if reasons else rate_outcome(_at(judged, counted), _at(judged, lost), plan.p99_ms)
        # What other work lengthened shows that a rate is carried, not that it is not.
        outcome = "open" if outcome == "not carried" and any(_at(judged, disturbed)) else outcome
    judged = _judged(disturbed)
    counted, lost, disturbed = _at(judged, counted), _at(judged, lost), _at(judged, disturbed)
    has_p99 = outcome != "cannot tell" and len(counted) >= MIN_SAMPLES_FOR_P99
    return MeasuredRate(
        rate=rate,
        seconds=spent_s,
        requests=len(counted),
        over=sum(value > plan.p99_ms for value in counted),
        lost=sum(lost),
        p99_ms=percentile(sorted(counted), 0.99) if has_p99 else None,
        disturbed=sum(disturbed) / max(1, len(counted)),
        outcome=outcome,
        reasons=reasons,
    )


def _judged(disturbed: Sequence[bool]) -> list[int]:
    """Returns the numbers of the requests that were not disturbed; of all, where these are too few for an outcome."""
    quiet = [number for number, busy in enumerate(disturbed) if not busy]
    return quiet if len(quiet) >= FEWEST_REQUESTS else list(range(len(disturbed)))


def _at(numbers: Sequence[int], values: Sequence[T]) -> list[T]:
    return [values[number] for number in numbers]


def rate_outcome(counted_ms: Sequence[float], lost: Sequence[bool], bound_ms: float) -> RateOutcome:
    """Returns what requests show of a rate: both shares must be within 1 %."""
    outcomes = {share_outcome([value > bound_ms for value in counted_ms]), share_outcome(lost)}
    if "above" in outcomes:
        return "not carried"
    return "carried" if outcomes == {"within"} else "open"


def share_outcome(missed: Sequence[bool]) -> ShareOutcome:
    """Returns whether the share of misses is at most 1 % (`within`), more (`above`), or not known yet (`open`).

    `missed`: of each request, in planned order.
    """
    from scipy.stats import binom  # type: ignore[import-untyped]  # ships no types

    if binom.cdf(sum(missed), len(missed), MOST_SHARE) <= 1 - CONFIDENCE:
        return "within"
    return "above" if _least_share(missed) > MOST_SHARE else "open"


def _least_share(missed: Sequence[bool]) -> float:
    """Returns the lower bound of the share of misses, from the spread of its blocks (Cochran 1977, chapter 9)."""
    from scipy.stats import sem, t

    if len(missed) < FEWEST_REQUESTS:
        return 0.0
    cuts = [len(missed) * number // SHARE_BLOCKS for number in range(SHARE_BLOCKS + 1)]
    shares = [sum(missed[begin:end]) / (end - begin) for begin, end in itertools.pairwise(cuts)]
    return float(sum(shares) / SHARE_BLOCKS - t.ppf(CONFIDENCE_ABOVE, SHARE_BLOCKS - 1) * sem(shares))


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
    """Returns what a search that has ended found."""
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
        lowest = list(_decided(measured))[-1]
        outcome = "none" if lowest.outcome == "not carried" and lowest.disturbed <= MOST_SHARE else "cannot tell"
        too_low = f"lower than {least_rate(plan):.3g}/s cannot be told in {plan.point_seconds:g} s"
        beside = f"other work disturbed {lowest.disturbed:.0%} of the requests at {lowest.rate:.3g}/s"
        reasons = (too_low,) if outcome == "none" else lowest.reasons or (beside,)
    else:
        reasons = (f"no rate was carried {VERIFICATIONS + 1} times in {len(measured)} measurements",)
    return FoundCapacity(bound_ms=plan.p99_ms, outcome=outcome, rate=rate, reasons=reasons, measured=tuple(measured))


def least_rate(plan: CapacityPlan) -> float:
    """Returns the rate below which the time of a measurement is too short to show that it is carried."""
    return requests_in_first_look() / (plan.point_seconds - plan.warmup_seconds)


def _bracket(measured: Sequence[MeasuredRate]) -> tuple[float | None, float | None]:
    """Returns the highest rate that was carried each time below the lowest one that was not, and this one."""
    high = min((at.rate for at in _decided(measured) if at.outcome != "carried"), default=None)
    carried = [at.rate for at in _decided(measured) if high is None or at.rate < high]
    return max(carried, default=None), high


def _decided(measured: Sequence[MeasuredRate]) -> Iterator[MeasuredRate]:
    return (at for at in measured if at.outcome != "cannot tell")


def _times_carried(measured: Sequence[MeasuredRate], rate: float) -> int:
    return sum(at.rate == rate and at.outcome == "carried" for at in measured)


def _disturbed(measured: Sequence[MeasuredRate]) -> bool:
    return len(measured) >= 2 and all(at.outcome == "cannot tell" for at in measured[-2:])


def _three_digits(rate: float) -> float:
    return float(f"{rate:.3g}")


def multiple_rates(capacity: FoundCapacity) -> Iterator[tuple[float, float]]:
    """Yields multiples of the capacity and their rates, ascending; none where no capacity was found."""
    if capacity.rate is not None:
        for multiple in MULTIPLES:
            yield multiple, float(f"{multiple * capacity.rate:.3g}")


def capacity_report(
    pipeline: str, found: FoundCapacity, points: Sequence[tuple[float, LoadPointReport]]
) -> CapacityReport:
    """Builds the report. `points`: by multiple of the capacity."""
    multiples = tuple(_at_multiple(multiple, point) for multiple, point in points)
    report = CapacityReport(pipeline=pipeline, found=found, multiples=multiples, knee=knee(multiples), sentence="")
    return report.model_copy(update={"sentence": _sentence(report)})


def knee(multiples: Sequence[CapacityMultiple]) -> float | None:
    """Returns the swept rate at which goodput divided by p95 is greatest; None without valid times.

    Beyond the capacity times need not be valid, because requests are dropped there; below it they have to be.

    This is the power of a queue: below its greatest value a higher rate costs little latency, above it much latency
    for little goodput (Kleinrock 1979, Power and deterministic rules of thumb, ICC). p95 stands for the mean latency,
    because the tail is what a bound is about, and because it exists where p99 does not.
    """
    if not all(at.timing_valid for at in multiples if at.multiple in SWEEP and at.multiple <= 1):
        return None
    powers = [(at.goodput / at.p95_ms, at.rate) for at in multiples if at.multiple in SWEEP and at.p95_ms]
    return max(powers, default=(0.0, None))[1]


def render_capacity(report: CapacityReport) -> str:
    """Renders the sentence, the measured rates in order, and the figures at multiples of the capacity."""
    parts = [report.sentence, aligned(measured_rows(report))]
    if report.multiples:
        parts.append(aligned(multiple_rows(report)))
    return "\n\n".join(parts)


def measured_rows(report: CapacityReport) -> list[tuple[str, ...]]:
    """Returns a header and every measurement of the search, in order."""
    measured: list[tuple[str, ...]] = [
        ("rate", "seconds", "requests", "over", "lost or degraded", "disturbed", "p99 ms", "outcome")
    ]
    measured += [
        (f"{at.rate:g}/s", f"{at.seconds:.0f}", str(at.requests), str(at.over), str(at.lost),
         f"{at.disturbed:.0%}", _figure(at.p99_ms), at.outcome)
        for at in report.found.measured
    ]  # fmt: skip
    return measured


def multiple_rows(report: CapacityReport) -> list[tuple[str, ...]]:
    """Returns a header and the figures at multiples of the capacity, one row each."""
    figures: list[tuple[str, ...]] = [("load", "rate", "in time/s", "nDCG@10 per second", "p95 ms", "p99 ms", "timing")]
    figures += [
        (f"{at.multiple:g}x", f"{at.rate:g}/s", f"{at.goodput:.1f}", f"{at.ndcg_a_second:.1f}",
         *(Timed(ms, at.timing_valid).cell() for ms in (at.p95_ms, at.p99_ms)),
         "valid" if at.timing_valid else MARKED)
        for at in report.multiples
    ]  # fmt: skip
    return figures


def _at_multiple(multiple: float, point: LoadPointReport) -> CapacityMultiple:
    return CapacityMultiple(
        multiple=multiple,
        rate=point.rate or 0.0,
        goodput=point.goodput,
        ndcg_a_second=(point.quality.ndcg_at_10 or 0.0) * point.offered,
        p95_ms=point.latency_ms.p95.unchecked_ms,
        p99_ms=point.latency_ms.p99.held_ms,
        timing_valid=point.timing_valid and point.latency_ms.p95.holds,
    )


def _sentence(report: CapacityReport) -> str:
    found, bound = report.found, f"with p99 <= {report.found.bound_ms:g} ms"
    reasons, beside = "; ".join(found.reasons), ""
    if found.disturbed > MOST_SHARE:
        beside = f" Other work disturbed {found.disturbed:.0%} of the requests: alone it carries this or more."
    match found.outcome:
        case "found":
            knee_part = "" if report.knee is None else f"; the knee is at {report.knee:g}/s"
            if report.multiples and report.knee is None:
                knee_part = "; the knee cannot be told, because times below the capacity are not valid"
            verified = f"in {found.verified} of {VERIFICATIONS} verifications"
            return f"{report.pipeline} carries {found.rate:g}/s {bound} {verified}{knee_part}.{beside}"
        case "none":
            return f"{report.pipeline} carries no rate {bound}: {reasons}."
        case "cannot tell":
            return f"This machine cannot tell which rate {report.pipeline} carries {bound}: {reasons}."


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"
