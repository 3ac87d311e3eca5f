"""The search for the capacity, on simulated queues whose capacity is known."""

import functools

import pytest

from evaluator.experiments.load_plan import CapacityPlan
from evaluator.load.capacity import (
    MOST_POINTS,
    VERIFICATIONS,
    MeasuredRate,
    RateSample,
    find_capacity,
    found_capacity,
    least_rate,
    measure_rate,
    next_rate,
    next_seconds,
)
from tests.support.simulated_queue import SimulatedQueue, true_capacity

PLAN = CapacityPlan(p99_ms=500)
known_capacity = functools.cache(true_capacity)


@pytest.mark.parametrize("seed", ["1", "2", "3"])
async def test_the_capacity_of_a_queue_is_found_within_a_twentieth(seed: str) -> None:
    queue = SimulatedQueue(service_ms=5)
    found = await find_capacity(PLAN, seed, queue)
    assert found.outcome == "found"
    assert found.rate == pytest.approx(known_capacity(5, 500), rel=0.05)
    assert sum(one.rate == found.rate and one.outcome == "carried" for one in found.measured) == VERIFICATIONS + 1
    assert max(one.seconds for one in found.measured) <= 120


async def test_the_capacity_under_a_short_bound_is_found_within_a_twentieth() -> None:
    found = await find_capacity(CapacityPlan(p99_ms=50), "1", SimulatedQueue(service_ms=5))
    assert found.rate == pytest.approx(known_capacity(5, 50), rel=0.05)


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

    one = await measure_rate(100, PLAN, "1", one_in_a_hundred)
    assert (one.outcome, one.seconds) == ("open", 120)
    assert one.reasons == ("120 s at 100/s are too short to tell",)


async def test_lost_or_degraded_answers_bound_the_capacity_as_slow_ones_do() -> None:
    found = await find_capacity(PLAN, "1", SimulatedQueue(service_ms=5, lost_share=0.05))
    assert (found.outcome, found.rate) == ("none", None)
    assert all(one.outcome == "not carried" and one.over == 0 for one in found.measured)


async def test_a_busy_machine_gets_a_second_chance_and_then_reasons_instead_of_a_number() -> None:
    queue = SimulatedQueue(service_ms=5, faults=("other processes used 45% of the CPU (limit 10%)",))
    found = await find_capacity(PLAN, "1", queue)
    assert (found.outcome, found.rate) == ("cannot tell", None)
    assert found.reasons == ("at 10/s: other processes used 45% of the CPU (limit 10%)",)
    assert len(queue.seconds) == 2


async def test_a_disturbance_that_passes_changes_nothing() -> None:
    quiet = SimulatedQueue(service_ms=5)
    disturbed = 0

    async def once_disturbed(rate: float, warmup_s: float, seconds: float, seed: str) -> RateSample:
        nonlocal disturbed
        disturbed += 1
        sample = await quiet(rate, warmup_s, seconds, seed)
        return RateSample([900.0] * len(sample.lost), sample.lost, ("steal",)) if disturbed == 3 else sample

    found = await find_capacity(PLAN, "1", once_disturbed)
    assert [one.outcome for one in found.measured].count("cannot tell") == 1
    assert found.rate == pytest.approx(known_capacity(5, 500), rel=0.05)


async def test_a_system_too_slow_for_the_seconds_of_a_rate_has_no_number() -> None:
    found = await find_capacity(PLAN, "1", SimulatedQueue(service_ms=2_000))
    assert found.outcome == "none"
    assert found.reasons == ("lower than 2.85/s cannot be told in 120 s",)


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
    found = found_capacity(measured, PLAN)
    assert (found.outcome, found.rate) == ("cannot tell", None)


@pytest.mark.parametrize("above", ["cannot tell", "open", "not carried"])
def test_a_rate_that_was_disturbed_or_open_leaves_none_as_the_answer_where_lower_ones_are_not_carried(
    above: str,
) -> None:
    measured = [rate_of(10, above), *(rate_of(rate, "not carried") for rate in (10, 5, 2.86))]
    assert next_rate(measured, PLAN) is None
    found = found_capacity(measured, PLAN)
    assert found.outcome == "none"
    assert found.reasons == ("lower than 2.85/s cannot be told in 120 s",)
