"""The shares of a machine that others took during a measurement: from counters that the test writes, and live ones."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evaluator.machine.machine_conditions import (
    MachineConditions,
    condition_faults,
    conditions_between,
    read_conditions,
    unchecked_foreign,
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
    found = during(machine, own=0.3, service=0.5, other=0.15)
    assert found.foreign == pytest.approx(0.15, abs=1e-3)
    assert (found.seconds, found.cores) == (100.0, 2)


def test_a_process_that_is_not_named_as_measured_is_foreign(machine: CountedMachine) -> None:
    assert during(machine, measured=(), service=0.5).foreign == pytest.approx(0.5, abs=1e-3)


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


def test_steal_throttling_pressure_and_frequency_are_shares_of_what_the_kernel_counts(machine: CountedMachine) -> None:
    found = during(machine, steal=0.05, throttled=0.25, waiting=0.4)
    assert found.steal == pytest.approx(0.05, abs=1e-3)
    assert found.throttled == 0.25
    assert found.pressure == pytest.approx(0.4)
    assert found.frequency == 0.5
    assert found.foreign == 0.0


def test_what_the_machine_does_not_tell_is_null_and_no_fault(machine: CountedMachine) -> None:
    machine.forget_everything()
    before = read_conditions((), machine.counters)
    found = conditions_between(before, read_conditions((), machine.counters))
    assert found.model_dump(exclude={"seconds", "cores", "windows", "busy_windows"}) == dict.fromkeys(
        ("foreign", "steal", "throttled", "pressure", "frequency")
    )
    assert not list(condition_faults(found))


def test_a_machine_without_any_of_these_files_tells_nothing(tmp_path: Path) -> None:
    counters = CountedMachine(tmp_path).counters
    nowhere = replace(counters, proc=tmp_path / "a", cgroups=tmp_path / "b", cores=tmp_path / "c")
    found = conditions_between(read_conditions((), nowhere), read_conditions((), nowhere))
    assert set(found.model_dump(exclude={"seconds", "cores", "windows", "busy_windows"}).values()) == {None}


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


def test_clean_counters_are_a_fault_in_no_case(tmp_path: Path) -> None:
    for case in range(0, 20, 4):
        machine = CountedMachine(tmp_path / str(case))
        busy = during(machine, own=case / 40, service=(20 - case) / 40, other=0.09, steal=0.005, waiting=0.9)
        assert not list(condition_faults(busy))


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
