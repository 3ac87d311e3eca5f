"""What makes the times of a load invalid, and what follows for its points."""

import os
import random
import re

import pytest

from evaluator.load.load_report import gated_point
from evaluator.load.points.best_under import under_bound
from evaluator.load.points.validity import cpu_shares, generator_faults, generator_figures, machine_remarks
from evaluator.load.sending.drives import GeneratorUse
from evaluator.machine.machine_conditions import MachineConditions
from tests.support.load_points import CLEAN, load_point

SEEDS = range(3)
CONDITIONS = MachineConditions.model_validate(CLEAN | {"cores": 6})
HERE, ELSEWHERE = "http://127.0.0.1:8000/v1/collections/shop/search", "http://192.0.2.1:8000"


def faults(
    lags_ms: list[float], cpu: float = 0.1, p50_ms: float = 20.0, dropped: int = 0, real_time: bool = True
) -> list[str]:
    generators = generator_figures([0.1, cpu], lags_ms, real_time=real_time)
    return list(generator_faults(generators, p50_ms, dropped))


def lags(seed: int, count: int = 1_200) -> list[float]:
    dice = random.Random(seed)
    return [dice.expovariate(1 / 0.1) for _ in range(count)]


@pytest.mark.parametrize("seed", SEEDS)
def test_generators_that_are_stopped_or_busy_make_the_times_invalid_and_others_do_not(seed: int) -> None:
    dice = random.Random(seed)
    assert faults(lags(seed), cpu=dice.uniform(0, 0.45)) == []
    # 1 s of 60: the requests of that second leave up to 1 s late.
    stopped = [1_000.0 * share / 20 for share in range(20)] + lags(seed, 1_180)
    assert "left" in faults(stopped)[0]
    assert "of a core" in faults(lags(seed), cpu=dice.uniform(0.5, 1.0))[0]


def test_a_lag_is_bounded_by_a_hundredth_of_p50_and_says_what_would_help_without_real_time_priority() -> None:
    late = [3.0] * 100
    assert faults(late, p50_ms=400.0) == []
    assert "CAP_SYS_NICE" not in faults(late, p50_ms=200.0)[0]
    assert "CAP_SYS_NICE" in faults(late, p50_ms=200.0, real_time=False)[0]


def test_a_dropped_request_makes_the_times_invalid() -> None:
    assert faults(lags(1), dropped=3) == ["3 requests were dropped, so that the system met less load than planned"]


def test_the_cpu_of_a_generator_counts_over_all_slices_so_that_a_short_one_says_little() -> None:
    # The second slice had one request right at its start; the third had none.
    slices = [[GeneratorUse(0.2, 3.0), GeneratorUse(0.1, 3.0)], [GeneratorUse(0.01, 0.01)], [GeneratorUse(0.0, 0.0)]]
    assert cpu_shares(slices) == pytest.approx([0.21 / 3.01, 0.1 / 3.0])
    assert cpu_shares(slices[2:]) == [0.0]


def test_a_tail_that_does_not_hold_is_marked_and_bounds_nothing() -> None:
    clean, busy = load_point(), load_point(cpu=0.9)
    assert clean.timing_valid
    assert clean.latency_ms.p99.held_ms is not None
    assert not busy.timing_valid
    assert (busy.latency_ms.p99.held_ms, busy.service_ms.p99.held_ms) == (None, None)
    assert busy.latency_ms.p99.cell() == f"{clean.latency_ms.p99.cell()}?"
    assert gated_point(busy, None).p99_ms is None
    under = under_bound("hybrid", 0.7, busy.latency_ms, 0.0, bound_ms=10_000)
    assert (under.outcome, under.p99_interval, under.reason) == ("cannot tell", None, "its times are not valid")
    assert busy.latency_ms.p50.unchecked_ms == clean.latency_ms.p50.held_ms
    assert busy.quality == clean.quality


def test_disturbed_requests_leave_each_time_an_interval_and_a_bound_that_the_upper_end_keeps() -> None:
    clean, busy = load_point(), load_point(disturbed=0.03)
    assert busy.timing_valid
    assert busy.latency_ms.p50.held_ms == clean.latency_ms.p50.held_ms
    assert (busy.latency_ms.p99.held_ms, busy.latency_ms.disturbed) == (None, pytest.approx(0.03))
    low, high = re.findall(r"[\d.]+", busy.latency_ms.p99.cell())
    assert float(low) < float(high) == pytest.approx(clean.latency_ms.p99.held_ms, abs=0.05)
    assert gated_point(busy, None).p99_ms == clean.latency_ms.p99.held_ms
    assert not load_point(disturbed=0.4).timing_valid


def test_it_is_said_whose_cores_the_generators_share_and_which_machine_was_not_checked() -> None:
    shared = "the generators share the {} cores of this machine with the system under test"
    assert list(machine_remarks([HERE], [CONDITIONS])) == [shared.format(6)]
    # A search for the capacity may end without a point.
    assert list(machine_remarks([HERE], [])) == [shared.format(os.cpu_count())]
    (remark,) = machine_remarks([ELSEWHERE], [CONDITIONS])
    assert remark.startswith("192.0.2.1:8000 is no address of this machine: foreign CPU, steal and throttling of the")
    assert list(machine_remarks([HERE, ELSEWHERE], [CONDITIONS]))[1:] == [remark]
