"""The shares of a machine that others took during a measurement: from counters that the test writes, and live ones."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from evaluator.machine.machine_conditions import (
    ConditionsMeter,
    MachineConditions,
    condition_faults,
    conditions_between,
    joined_conditions,
    metered,
    read_conditions,
    unchecked_foreign,
    window_faults,
)
from tests.support.load_points import CLEAN
from tests.support.machine_counters import SERVICE, CountedMachine


@pytest.fixture
def machine(tmp_path: Path) -> CountedMachine:
    return CountedMachine(tmp_path)


def during(
    machine: CountedMachine, measured: tuple[int, ...] | None = (SERVICE,), **shares: float
) -> MachineConditions:
    """Lets 100 s pass with these shares; what the readings before and after say of them."""
    before = read_conditions(measured, machine.counters)
    machine.pass_time(100.0, **shares)
    return conditions_between(before, read_conditions(measured, machine.counters))


def test_the_time_of_this_process_of_the_service_and_of_its_children_is_not_foreign(machine: CountedMachine) -> None:
    conditions = during(machine, own=0.3, service=0.5, other=0.15)
    assert conditions.foreign == pytest.approx(0.15, abs=1e-3)
    assert (conditions.seconds, conditions.cores) == (100.0, 2)


def test_nothing_counts_as_foreign_where_nobody_knows_the_processes_of_the_service(machine: CountedMachine) -> None:
    assert during(machine, measured=None, service=0.5, other=0.4).foreign is None


def test_work_of_others_that_nobody_could_check_is_told() -> None:
    known = MachineConditions.model_validate(CLEAN)
    assert list(unchecked_foreign([known])) == []
    (said,) = unchecked_foreign([known, known.model_copy(update={"foreign": None})])
    assert said.startswith("foreign CPU unknown: this runs folder does not know the gateway's processes")
    assert list(unchecked_foreign([known.model_copy(update={"foreign": None, "steal": None})])) == []


def test_foreign_time_is_not_told_once_a_measured_process_has_ended(machine: CountedMachine) -> None:
    before = read_conditions((SERVICE,), machine.counters)
    machine.pass_time(100.0, service=0.5)
    (machine.root / "proc" / str(SERVICE) / "stat").unlink()
    assert conditions_between(before, read_conditions((SERVICE,), machine.counters)).foreign is None


def test_steal_and_throttling_are_shares_of_what_the_kernel_counts(machine: CountedMachine) -> None:
    conditions = during(machine, steal=0.05, throttled=0.25)
    assert conditions.steal == pytest.approx(0.05, abs=1e-3)
    assert conditions.throttled == 0.25
    assert conditions.foreign == 0.0


def test_what_the_machine_does_not_tell_is_null_and_no_fault(machine: CountedMachine) -> None:
    machine.forget_everything()
    before = read_conditions((), machine.counters)
    conditions = conditions_between(before, read_conditions((), machine.counters))
    assert conditions.model_dump(exclude={"seconds", "cores", "windows", "busy_windows"}) == dict.fromkeys(
        ("foreign", "steal", "throttled")
    )
    assert not list(condition_faults(conditions))


def test_a_cgroup_of_version_2_counts_with_every_group_above_it(machine: CountedMachine) -> None:
    (machine.root / "cgroup" / "cpu" / "cpu.stat").unlink()
    (machine.root / "proc" / str(os.getpid()) / "cgroup").write_text("0::/pod/container\n", encoding="utf-8")
    pod = machine.root / "cgroup" / "pod"
    (pod / "container").mkdir(parents=True)

    def write(stopped_pod: int, stopped_container: int, periods: int) -> None:
        for folder, stopped in ((pod, stopped_pod), (pod / "container", stopped_container)):
            text = f"usage_usec 5\nnr_periods {periods}\nnr_throttled {stopped}\nthrottled_usec 7\n"
            (folder / "cpu.stat").write_text(text, encoding="utf-8")
        (machine.root / "cgroup" / "cpu.stat").write_text("usage_usec 5\n", encoding="utf-8")  # the root has no limit

    write(10, 10, 100)
    before = read_conditions((), machine.counters)
    write(40, 15, 200)
    assert conditions_between(before, read_conditions((), machine.counters)).throttled == 0.3


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ({"other": 0.12}, "other processes used 12% of the CPU"),
        ({"steal": 0.02}, "the hypervisor took 2.0% of the CPU"),
        ({"throttled": 0.05}, "in 5.0% of its periods"),
    ],
)
def test_each_condition_beyond_its_limit_is_a_fault_in_every_case(
    tmp_path: Path, shares: dict[str, Any], said: str
) -> None:
    for case in range(0, 20, 4):
        machine = CountedMachine(tmp_path / str(case))
        (fault,) = condition_faults(during(machine, own=case / 40, service=(20 - case) / 40, **shares))
        assert said in fault


def test_the_time_of_a_child_counts_as_own_on_this_machine_while_it_runs_and_when_it_has_ended() -> None:
    before = read_conditions()
    spin = "import time\nwhile time.process_time() < 0.2: pass\nprint(flush=True)\ninput()"
    child = subprocess.Popen([sys.executable, "-S", "-c", spin], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    running = read_conditions()
    child.communicate(b"\n")
    ended = read_conditions()
    assert before.own_s is not None
    assert running.own_s is not None
    assert ended.own_s is not None
    assert 0.18 <= running.own_s - before.own_s <= ended.own_s - before.own_s + 0.02


BUSY = {"foreign": {"other": 0.9}, "steal": {"steal": 0.05}, "throttled": {"throttled": 0.2}}


def measured_minutes(machine: CountedMachine, busy: dict[str, float], busy_windows: int) -> list[str]:
    """Returns the faults of five minutes, of which the middle windows are busy."""
    meter = ConditionsMeter((SERVICE,), machine.counters)
    for window in range(60):
        machine.pass_time(5.0, service=0.5, **(busy if 30 <= window < 30 + busy_windows else {}))
        conditions = meter.read()
    return list(window_faults(conditions))


@pytest.mark.parametrize("counter", BUSY)
def test_a_busy_twelfth_of_the_time_is_found(counter: str, tmp_path: Path) -> None:
    (fault,) = measured_minutes(CountedMachine(tmp_path), BUSY[counter], 5)
    assert "5 of 60 windows" in fault or "limit 10%" in fault or "limit 1%" in fault


def part(seconds: float, foreign: float = 0.0, windows: int = 0, busy: int = 0) -> MachineConditions:
    return MachineConditions(
        seconds=seconds, cores=2, foreign=foreign, steal=0.0, throttled=None,
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
