"""A machine that is busy for a part of a measurement."""

import asyncio
from pathlib import Path

import pytest

from evaluator.machine.machine_conditions import MachineConditions
from evaluator.machine.machine_windows import ConditionsMeter, joined_conditions, metered, window_faults
from tests.support.machine_counters import SERVICE, CountedMachine

BUSY = {"foreign": {"other": 0.9}, "steal": {"steal": 0.05}, "throttled": {"throttled": 0.2}}


def measured_minutes(machine: CountedMachine, busy: dict[str, float], busy_windows: int) -> list[str]:
    """Returns the faults of five minutes, of which the middle windows are busy."""
    meter = ConditionsMeter((SERVICE,), machine.counters)
    for window in range(60):
        machine.pass_time(5.0, service=0.5, **(busy if 30 <= window < 30 + busy_windows else {}))
        found = meter.read()
    return list(window_faults(found))


@pytest.mark.parametrize("counter", BUSY)
def test_a_busy_twelfth_of_the_time_is_found(counter: str, tmp_path: Path) -> None:
    (fault,) = measured_minutes(CountedMachine(tmp_path), BUSY[counter], 5)
    assert "5 of 60 windows" in fault or "limit 10%" in fault or "limit 1%" in fault


def test_a_busy_sixtieth_of_the_time_is_none(tmp_path: Path) -> None:
    assert measured_minutes(CountedMachine(tmp_path), BUSY["foreign"], 1) == []


def part(seconds: float, foreign: float = 0.0, windows: int = 0, busy: int = 0) -> MachineConditions:
    return MachineConditions(
        seconds=seconds, cores=2, foreign=foreign, steal=0.0, throttled=None, pressure=None, frequency=None,
        windows=windows, busy_windows=busy,
    )  # fmt: skip


@pytest.mark.parametrize("slices", [1, 2, 4, 20])
def test_the_limits_are_as_strict_in_many_slices_as_in_one(slices: int) -> None:
    windows = 60 // slices
    even = [part(5.0 * windows, foreign=0.09, windows=windows) for _ in range(slices)]
    assert list(window_faults(joined_conditions(even))) == []
    few = [part(5.0 * windows, windows=windows, busy=3 if number == 0 else 0) for number in range(slices)]
    assert list(window_faults(joined_conditions(few))) == []
    more = [part(5.0 * windows, windows=windows, busy=3 if number == 0 else 0) for number in range(slices - 1)]
    more.append(part(5.0 * windows, windows=windows, busy=4 if slices == 1 else 1))
    assert "in 4 of 60 windows" in next(iter(window_faults(joined_conditions(more))))


def test_a_slice_shorter_than_a_window_is_one() -> None:
    slices = [part(2.0, foreign=0.5 if number < 2 else 0.0) for number in range(20)]
    joined = joined_conditions(slices)
    assert (joined.windows, joined.busy_windows, joined.foreign) == (20, 2, pytest.approx(0.05))
    assert len(list(window_faults(joined))) == 1


async def test_work_is_metered_and_its_error_is_raised(tmp_path: Path) -> None:
    machine = CountedMachine(tmp_path)

    async def work() -> int:
        machine.pass_time(6.0, other=0.5)
        return 7

    async def broken() -> None:
        raise ValueError("broken")

    answer, conditions = await metered(work(), (SERVICE,), machine.counters)
    assert (answer, conditions.windows, conditions.busy_windows) == (7, 1, 1)
    with pytest.raises(ValueError, match="broken"):
        await metered(broken(), (SERVICE,), machine.counters)
    waiting = asyncio.create_task(metered(asyncio.sleep(60), (SERVICE,), machine.counters))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
