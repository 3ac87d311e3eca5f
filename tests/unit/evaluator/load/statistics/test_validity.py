"""Injected counters make the timing of a load invalid, each time; clean ones never do."""

import os
import random
from pathlib import Path

import pytest

from evaluator.load.load_report import gated_point
from evaluator.load.points.best_under import under_bound
from evaluator.load.points.validity import GeneratorFigures, generator_figures, load_faults, machine_remarks
from evaluator.machine.machine_conditions import ConditionsMeter, MachineConditions
from tests.support.load_points import CLEAN, load_point
from tests.support.machine_counters import SERVICE, CountedMachine

SEEDS = range(3)
SERVICE_MS = 10.0
# Counters of the machine, and what a fault calls them.
CALLED = {"other": "other processes", "steal": "steal", "throttled": "throttling"}
CONDITIONS = MachineConditions.model_validate(CLEAN | {"cores": 6})
HERE, ELSEWHERE = "http://127.0.0.1:8000/v1/collections/shop/search", "http://192.0.2.1:8000"


def conditions(**given: float) -> MachineConditions:
    return MachineConditions.model_validate(CLEAN | given)


def lags(seed: int, count: int = 1_200) -> list[float]:
    dice = random.Random(seed)
    return [dice.expovariate(1 / 0.1) for _ in range(count)]


def faults(
    generators: GeneratorFigures,
    found: MachineConditions,
    p50_ms: float = 20.0,
    dropped: int = 0,
) -> list[str]:
    return list(load_faults(generators, p50_ms, [found, found], dropped))


@pytest.mark.parametrize("seed", SEEDS)
def test_clean_counters_leave_the_timing_valid(seed: int) -> None:
    dice = random.Random(seed)
    clean = conditions(foreign=dice.uniform(0, 0.08), steal=dice.uniform(0, 0.008))
    assert faults(generator_figures([dice.uniform(0, 0.45)], lags(seed), real_time=True), clean) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_stopped_generator_makes_the_timing_invalid(seed: int) -> None:
    # 1 s of 60: the requests of that second leave up to 1 s late.
    stopped = [1_000.0 * share / 20 for share in range(20)] + lags(seed, 1_180)
    assert "left" in faults(generator_figures([0.1], stopped, real_time=True), conditions())[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_busy_generator_makes_the_timing_invalid(seed: int) -> None:
    cpu = random.Random(seed).uniform(0.5, 1.0)
    assert "of a core" in faults(generator_figures([0.1, cpu], lags(seed), real_time=True), conditions())[0]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("counter", ["foreign", "steal", "throttled"])
def test_a_busy_machine_makes_the_timing_invalid(counter: str, seed: int) -> None:
    share = random.Random(seed).uniform(0.11, 1.0)
    assert len(faults(generator_figures([0.1], lags(seed), real_time=True), conditions(**{counter: share}))) == 1


def test_a_lag_below_a_hundredth_of_p50_is_no_fault() -> None:
    late = generator_figures([0.1], [3.0] * 100, real_time=True)
    assert faults(late, conditions(), p50_ms=400.0) == []
    assert len(faults(late, conditions(), p50_ms=200.0)) == 1


def test_a_lag_without_real_time_priority_says_what_would_help() -> None:
    late = generator_figures([0.1], [3.0] * 100, real_time=False)
    assert "CAP_SYS_NICE" in faults(late, conditions())[0]


def test_a_dropped_request_makes_the_timing_invalid() -> None:
    assert faults(generator_figures([0.1], lags(1), real_time=True), conditions(), dropped=3) == [
        "3 requests were dropped, so that the system met less load than planned"
    ]


def test_a_tail_that_does_not_hold_is_marked_and_bounds_nothing() -> None:
    clean, busy = load_point(), load_point(foreign=0.5)
    assert clean.timing_valid
    assert clean.latency_ms.p99.held_ms is not None
    assert not busy.timing_valid
    assert (busy.latency_ms.p99.held_ms, busy.service_ms.p99.held_ms) == (None, None)
    assert busy.latency_ms.p99.cell() == f"{clean.latency_ms.p99.cell()}?"
    assert gated_point(busy, None).p99_ms is None
    under = under_bound("hybrid", 0.7, busy.latency_ms, 0.0, bound_ms=10_000)
    assert (under.outcome, under.p99_interval, under.reason) == ("cannot tell", None, "its times are not valid")
    assert busy.latency_ms.p50.unchecked_ms == clean.latency_ms.p50.held_ms
    assert busy.latency_ms.p50.held_ms is None
    assert busy.quality == clean.quality


def counted_minute(dice: random.Random, directory: Path, busy: int = 0, **shares: float) -> MachineConditions:
    """Returns what injected counters tell of a minute, of whose 12 windows the first `busy` ones have these shares."""
    machine = CountedMachine(directory)
    meter = ConditionsMeter((SERVICE,), machine.counters)
    for window in range(12):
        quiet = {"other": dice.uniform(0, 0.08), "steal": dice.uniform(0, 0.008)}
        machine.pass_time(5.0, own=0.1, service=0.4, **quiet | (shares if window < busy else {}))
        meter.read()
    return meter.read()


@pytest.mark.parametrize("seed", SEEDS)
def test_clean_counters_of_the_machine_leave_the_times_of_a_point_valid(seed: int, tmp_path: Path) -> None:
    found = counted_minute(random.Random(seed), tmp_path)
    point = load_point(f"clean-{seed}", conditions=found)
    assert (point.timing_valid, point.timing_faults) == (True, ())
    assert point.latency_ms.p99.held_ms is not None


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("counter", CALLED)
def test_faulty_counters_of_the_machine_make_the_times_of_a_point_invalid(
    counter: str, seed: int, tmp_path: Path
) -> None:
    dice = random.Random(f"{seed} {counter}")
    found = counted_minute(dice, tmp_path, busy=dice.randint(1, 12), **{counter: dice.uniform(0.15, 0.9)})
    point = load_point(f"busy-{seed}", n=700, conditions=found)
    assert not point.timing_valid
    assert CALLED[counter] in point.timing_faults[-1]
    assert point.latency_ms.p99.held_ms is None


def test_a_gateway_of_this_machine_shares_its_cores_with_the_generators() -> None:
    said = "the generators share the 6 cores of this machine with the system under test"
    assert list(machine_remarks([HERE], [CONDITIONS])) == [said]


def test_the_shared_cores_are_told_of_a_search_without_a_point_too() -> None:
    said = f"the generators share the {os.cpu_count()} cores of this machine with the system under test"
    assert list(machine_remarks([HERE], [])) == [said]


def test_the_conditions_of_a_gateway_on_another_machine_are_said_to_be_unchecked() -> None:
    said = "192.0.2.1:8000 is no address of this machine: foreign CPU, steal and throttling of the gateway's machine"
    (remark,) = machine_remarks([ELSEWHERE], [CONDITIONS])
    assert remark == f"{said} were not checked"
    both = list(machine_remarks([HERE, ELSEWHERE], [CONDITIONS]))
    assert both[1:] == [remark]
