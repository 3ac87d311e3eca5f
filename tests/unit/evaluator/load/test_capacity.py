"""The search for the capacity on simulated queues, its test of a share, what it keeps, and its report."""

import functools
import random
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
import pytest

from evaluator.experiments.load_plan import CapacityPlan
from evaluator.load.capacity import (
    MOST_POINTS,
    VERIFICATIONS,
    CapacityMultiple,
    FoundCapacity,
    MeasuredRate,
    RateSample,
    ShareOutcome,
    capacity_report,
    find_capacity,
    found_capacity,
    knee,
    least_rate,
    measure_rate,
    multiple_rates,
    next_rate,
    next_seconds,
    render_capacity,
    share_outcome,
)
from evaluator.load.load_step import rate_sample, search_slice
from evaluator.load.sending.drives import GeneratorUse, LoadedPoint
from evaluator.machine.machine_conditions import MachineConditions
from tests.support.load_points import CLEAN, load_point
from tests.support.load_samples import load_sample

PLAN = CapacityPlan(p99_ms=500)


def sojourn_ms(rate: float, service_ms: float, count: int, dice: np.random.Generator) -> npt.NDArray[np.float64]:
    """Returns wait and service of each request, by Lindley's recursion from an empty queue."""
    steps = service_ms - dice.exponential(1000.0 / rate, count)
    walk = np.concatenate(([0.0], np.cumsum(steps)[:-1]))
    # The recursion's closed form: the walk over its lowest point so far.
    waits: npt.NDArray[np.float64] = walk - np.minimum.accumulate(walk)
    return waits + service_ms


@functools.cache
def known_capacity(service_ms: float, bound_ms: float) -> float:
    """Returns the rate at which 1 % of the requests take longer than the bound, from half a million of them."""
    low, high = 0.0, 1000.0 / service_ms
    while high / (low + 1e-9) > 1.002:
        middle = (low + high) / 2
        over = np.mean(sojourn_ms(middle, service_ms, 500_000, np.random.default_rng(7)) > bound_ms)
        low, high = (low, middle) if over > 0.01 else (middle, high)
    return low


class SimulatedQueue:
    """Measures rates of the queue, as a load generator would, and remembers for how long at each."""

    def __init__(self, service_ms: float, faults: tuple[str, ...] = (), lost_share: float = 0.0) -> None:
        self._service_ms = service_ms
        self._lost_share = lost_share
        self.faults = faults
        self.seconds: list[float] = []

    async def __call__(self, rate: float, warmup_s: float, seconds: float, seed: str) -> RateSample:
        self.seconds.append(warmup_s + seconds)
        dice = np.random.default_rng(list(seed.encode()))
        warm, count = dice.poisson(rate * warmup_s), dice.poisson(rate * seconds)
        times = sojourn_ms(rate, self._service_ms, warm + count, dice)[warm:]
        return RateSample(times.tolist(), (dice.random(count) < self._lost_share).tolist(), self.faults)


@pytest.mark.parametrize("seed", ["1", "2"])
async def test_the_capacity_of_a_queue_is_found_within_a_twentieth(seed: str) -> None:
    queue = SimulatedQueue(service_ms=5)
    capacity = await find_capacity(PLAN, seed, queue)
    assert capacity.outcome == "found"
    assert capacity.rate == pytest.approx(known_capacity(5, 500), rel=0.05)
    assert (
        sum(measured.rate == capacity.rate and measured.outcome == "carried" for measured in capacity.measured)
        == VERIFICATIONS + 1
    )
    assert max(measured.seconds for measured in capacity.measured) <= 120


async def test_a_clear_outcome_ends_the_measurement_of_a_rate_early() -> None:
    queue = SimulatedQueue(service_ms=5)
    idle = await measure_rate(50, PLAN, "1", queue)
    assert (idle.outcome, idle.seconds < 20, idle.p99_ms) == ("carried", True, None)
    assert 299 <= idle.requests < 662
    flooded = await measure_rate(400, PLAN, "1", queue)
    assert (flooded.outcome, flooded.seconds < 20) == ("not carried", True)
    assert flooded.p99_ms is not None
    assert flooded.p99_ms > 500


async def test_a_rate_that_stays_open_takes_its_seconds_and_no_more() -> None:
    async def one_in_a_hundred(rate: float, warmup_s: float, seconds: float, seed: str) -> RateSample:
        count = round(rate * seconds)
        return RateSample([900.0 if number % 100 == 0 else 1.0 for number in range(count)], [False] * count)

    measured = await measure_rate(100, PLAN, "1", one_in_a_hundred)
    assert (measured.outcome, measured.seconds) == ("open", 120)
    assert measured.reasons == ("120 s at 100/s are too short to tell",)


async def test_lost_or_degraded_answers_bound_the_capacity_as_slow_ones_do() -> None:
    capacity = await find_capacity(PLAN, "1", SimulatedQueue(service_ms=5, lost_share=0.05))
    assert (capacity.outcome, capacity.rate) == ("none", None)
    assert all(measured.outcome == "not carried" and measured.over == 0 for measured in capacity.measured)


async def test_a_busy_machine_gets_a_second_chance_and_then_reasons_instead_of_a_number() -> None:
    queue = SimulatedQueue(service_ms=5, faults=("other processes used 45% of the CPU (limit 10%)",))
    capacity = await find_capacity(PLAN, "1", queue)
    assert (capacity.outcome, capacity.rate) == ("cannot tell", None)
    assert capacity.reasons == ("at 10/s: other processes used 45% of the CPU (limit 10%)",)
    assert len(queue.seconds) == 2


async def test_a_disturbance_that_passes_changes_nothing() -> None:
    quiet = SimulatedQueue(service_ms=5)
    disturbed = 0

    async def once_disturbed(rate: float, warmup_s: float, seconds: float, seed: str) -> RateSample:
        nonlocal disturbed
        disturbed += 1
        sample = await quiet(rate, warmup_s, seconds, seed)
        return RateSample([900.0] * len(sample.lost), sample.lost, ("steal",)) if disturbed == 3 else sample

    capacity = await find_capacity(PLAN, "1", once_disturbed)
    assert [measured.outcome for measured in capacity.measured].count("cannot tell") == 1
    assert capacity.rate == pytest.approx(known_capacity(5, 500), rel=0.05)


async def test_a_rate_that_is_carried_beside_other_work_is_found_with_the_share_of_it() -> None:
    quiet = SimulatedQueue(service_ms=5)

    async def beside(rate: float, warmup_s: float, seconds: float, seed: str) -> RateSample:
        sample = await quiet(rate, warmup_s, seconds, seed)
        return replace(sample, disturbed=[True] * len(sample.lost))

    capacity = await find_capacity(PLAN, "1", beside)
    assert (capacity.outcome, capacity.disturbed) == ("found", 1.0)
    said = capacity_report("bm25", capacity, []).sentence
    assert said.endswith("Other work disturbed 100% of the requests: alone it carries this or more.")


async def test_what_a_burst_disturbs_in_every_look_changes_nothing_while_enough_is_left() -> None:
    quiet = SimulatedQueue(service_ms=5)

    async def bursts(rate: float, warmup_s: float, seconds: float, seed: str) -> RateSample:
        sample = await quiet(rate, warmup_s, seconds, seed)
        hit = [number % 10 < 3 for number in range(len(sample.lost))]
        late = [900.0 if busy else ms for ms, busy in zip(sample.counted_ms, hit, strict=True)]
        return replace(sample, counted_ms=late, disturbed=hit)

    capacity = await find_capacity(PLAN, "1", bursts)
    assert capacity.rate == pytest.approx(known_capacity(5, 500), rel=0.05)
    assert max(at.disturbed for at in capacity.measured if at.rate >= 100) == 0.0


async def test_a_system_too_slow_for_the_seconds_of_a_rate_has_no_number() -> None:
    capacity = await find_capacity(PLAN, "1", SimulatedQueue(service_ms=2_000))
    assert capacity.outcome == "none"
    assert capacity.reasons == ("lower than 2.85/s cannot be told in 120 s",)


def test_the_last_look_at_a_rate_takes_all_the_time() -> None:
    short = CapacityPlan(p99_ms=500, point_seconds=20)
    assert next_seconds(45, 0, 0.0, short) == 15
    assert next_seconds(500, 0, 0.0, short) == 3.75
    assert next_seconds(45, 675, 20.0, short) is None


def test_a_search_with_little_time_begins_at_a_rate_that_it_can_tell() -> None:
    assert next_rate([], PLAN) == 10
    assert next_rate([], CapacityPlan(p99_ms=500, point_seconds=20)) == 43.7


@pytest.mark.parametrize("point_seconds", [2.5, 20.0, 120.0])
def test_a_search_goes_down_to_the_least_rate_that_it_can_tell(point_seconds: float) -> None:
    plan = CapacityPlan(p99_ms=500, point_seconds=point_seconds, warmup_seconds=0.1)
    measured: list[MeasuredRate] = []
    while (rate := next_rate(measured, plan)) is not None:
        assert next_seconds(rate, 0, 0.0, plan) is not None
        measured.append(rate_of(rate, "not carried"))
    assert measured[-1].rate == pytest.approx(least_rate(plan), rel=0.02)
    assert found_capacity(measured, plan).outcome == "none"


def test_a_verification_that_fails_lowers_the_bracket() -> None:
    carried = [rate_of(rate, "carried") for rate in (10, 20, 40)]
    tried = [*carried, rate_of(40.8, "not carried")]
    assert next_rate(tried, PLAN) == 40
    assert next_rate([*tried, rate_of(40, "open")], PLAN) == pytest.approx(28.3)


def rate_of(rate: float, outcome: str) -> MeasuredRate:
    return MeasuredRate.model_validate(
        {"rate": rate, "seconds": 15, "requests": 400, "over": 0, "lost": 0, "p99_ms": None, "outcome": outcome,
         "reasons": ()}
    )  # fmt: skip


def test_a_search_that_never_settles_ends_without_a_number() -> None:
    measured = [rate_of(10, "carried"), *[rate_of(10.2, "not carried")] * (MOST_POINTS - 1)]
    assert next_rate(measured, PLAN) is None
    capacity = found_capacity(measured, PLAN)
    assert (capacity.outcome, capacity.rate) == ("cannot tell", None)


@pytest.mark.parametrize("above", ["cannot tell", "open"])
def test_a_rate_that_was_disturbed_or_open_leaves_none_as_the_answer_where_lower_ones_are_not_carried(
    above: str,
) -> None:
    measured = [rate_of(10, above), *(rate_of(rate, "not carried") for rate in (10, 5, 2.86))]
    assert next_rate(measured, PLAN) is None
    capacity = found_capacity(measured, PLAN)
    assert capacity.outcome == "none"
    assert capacity.reasons == ("lower than 2.85/s cannot be told in 120 s",)


@pytest.mark.parametrize(
    ("misses", "requests", "outcome"),
    [(0, 298, "open"), (0, 299, "within"), (1, 472, "open"), (1, 473, "within"), (299, 299, "above")],
)
def test_a_share_is_within_from_the_requests_of_the_binomial_test(
    misses: int, requests: int, outcome: ShareOutcome
) -> None:
    assert share_outcome([True] * misses + [False] * (requests - misses)) == outcome


def test_a_share_of_two_percent_is_above_and_one_burst_is_not() -> None:
    dice = random.Random(1)
    assert share_outcome([dice.random() < 0.03 for _ in range(3_000)]) == "above"
    burst = [False] * 400 + [True] * 30 + [False] * 400
    assert share_outcome(burst) == "open"


CARRIED = MeasuredRate(rate=80, seconds=10, requests=320, over=0, lost=0, p99_ms=None, outcome="carried", reasons=())
FOUND = FoundCapacity(bound_ms=500, outcome="found", rate=80, reasons=(), measured=(CARRIED,) * 6)


def at(multiple: float, goodput: float, p95_ms: float | None) -> CapacityMultiple:
    return CapacityMultiple(
        multiple=multiple, rate=80 * multiple, goodput=goodput, ndcg_a_second=1, p95_ms=p95_ms, timing_valid=True
    )


def test_five_rates_are_swept_and_goodput_is_told_to_four_times_the_capacity() -> None:
    assert dict(multiple_rates(FOUND)) == {0.1: 8, 0.45: 36, 0.8: 64, 1: 80, 1.15: 92, 1.5: 120, 2: 160, 4: 320}
    assert list(multiple_rates(FOUND.model_copy(update={"outcome": "none", "rate": None}))) == []


def test_the_knee_has_the_most_goodput_for_its_p95() -> None:
    swept = [at(0.1, 8, 10), at(0.45, 36, 12), at(0.8, 64, 30), at(1.0, 80, 20), at(1.15, 80, 900), at(1.5, 60, None)]
    assert knee(swept) == 36
    assert knee([]) is None


def test_the_knee_is_not_told_where_times_below_the_capacity_are_not_valid() -> None:
    swept = [at(0.1, 8, 10), at(0.8, 64, 339).model_copy(update={"timing_valid": False}), at(1.5, 60, 900)]
    assert knee(swept) is None
    beyond = [swept[0], at(0.8, 64, 30), swept[2].model_copy(update={"timing_valid": False})]
    assert knee(beyond) == 64
    busy = load_point("bm25", 64, cpu=0.9)
    assert "the knee cannot be told" in capacity_report("bm25", FOUND, [(0.8, busy)]).sentence


def test_quality_a_second_counts_late_and_lost_requests_as_nothing() -> None:
    # 40 requests per second, half of them answered in time with an nDCG@10 of 1.
    point = load_point("bm25", rate=40, n=800, lost=400)
    report = capacity_report("bm25", FOUND, [(0.5, point)])
    assert (report.multiples[0].goodput, report.multiples[0].ndcg_a_second) == (20, 20)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({}, "bm25 carries 80/s with p99 <= 500 ms in 5 of 5 verifications."),
        (
            {"outcome": "none", "rate": None, "reasons": ("lower than 2.85/s cannot be told in 120 s",)},
            "bm25 carries no rate with p99 <= 500 ms: lower than 2.85/s cannot be told in 120 s.",
        ),
        (
            {"outcome": "cannot tell", "rate": None, "reasons": ("at 10/s: steal",)},
            "This machine cannot tell which rate bm25 carries with p99 <= 500 ms: at 10/s: steal.",
        ),
    ],
)
def test_every_outcome_is_one_sentence(found: dict[str, object], said: str) -> None:
    report = capacity_report("bm25", FOUND.model_copy(update=found), [])
    assert render_capacity(report).splitlines()[0] == said


def look(latency_ms: float, lag_ms: float) -> LoadedPoint:
    """Returns a look at a rate whose sends were so late, the first of them a warm-up."""
    samples = [load_sample(at, latency_ms=latency_ms, send_lag_ms=lag_ms) for at in range(40)]
    samples[0] = load_sample(0, latency_ms=latency_ms, phase="warmup")
    conditions = MachineConditions.model_validate(CLEAN)
    return LoadedPoint(tuple(samples), conditions, (GeneratorUse(0.1, 4.0),), True, datetime.now(UTC), 4.0)


@pytest.mark.parametrize(
    ("latency_ms", "lag_ms", "fault"), [(20.0, 0.9, False), (20.0, 1.1, True), (400.0, 3.9, False), (400.0, 4.1, True)]
)
def test_a_send_lag_is_judged_as_at_every_rate_whatever_the_bound(
    latency_ms: float, lag_ms: float, fault: bool
) -> None:
    sample = rate_sample(look(latency_ms, lag_ms))
    assert len(sample.counted_ms) == 39
    assert bool(sample.faults) == fault


def test_the_requests_of_a_look_are_kept_in_the_file_of_the_search_with_their_rate() -> None:
    part = search_slice("bm25", 40.0, look(20.0, 0.1), 3)
    assert (part.traffic, part.pipeline) == ("search", "bm25")
    assert {(sample.rate, sample.slice) for sample in part.loaded.samples} == {(40.0, 3)}
    assert '"rate":40.0' in part.loaded.samples[0].line
    assert '"rate"' not in load_sample().line
