"""The shares of a machine that others took during a measurement: from counters that the test writes, and live ones."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from evaluator.machine.machine_conditions import (
    ConditionsMeter,
    MachineConditions,
    _foreign_s,
    condition_words,
    conditions_between,
    joined_conditions,
    metered,
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
        ("foreign", "steal", "throttled", "clean_taken")
    )
    assert conditions.taken == 0.0


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


def test_the_time_of_a_child_is_not_foreign_on_this_machine_while_it_runs_and_when_it_has_ended() -> None:
    if read_conditions(()).foreign_s is None:
        pytest.skip("a list of all processes is not at hand, as in a container")
    spin = "import time\nwhile time.process_time() < 0.2: pass\nprint(flush=True)\ninput()"
    idle, busy = (
        subprocess.Popen([sys.executable, "-S", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for code in ("input()", spin)
    )

    def own_s() -> float:
        """Returns the time of this process and its children but `idle`, to which all others are foreign."""
        to_this, to_idle = read_conditions(()).foreign_s, _foreign_s({idle.pid}, Path("/proc"))
        assert to_idle is not None
        assert to_this is not None
        return to_idle - to_this

    before = own_s()
    assert busy.stdout is not None
    busy.stdout.readline()
    running = own_s()
    busy.communicate(b"\n")
    ended = own_s()
    idle.communicate(b"\n")
    assert 0.15 <= running - before <= ended - before + 0.05


@pytest.mark.parametrize(
    ("shares", "disturbed"),
    [
        ({"service": 0.9, "own": 0.05}, False),
        ({"other": 0.02, "steal": 0.02}, False),  # of two cores: 8 % of one
        ({"other": 0.025, "steal": 0.025}, True),
        ({"other": 0.5}, True),
        ({"steal": 0.05}, True),
        ({"throttled": 0.2}, True),
    ],
)
def test_a_window_is_disturbed_where_others_take_more_than_nine_hundredths_of_a_core(
    machine: CountedMachine, shares: dict[str, float], disturbed: bool
) -> None:
    meter = ConditionsMeter((SERVICE,), machine.counters)
    for window in range(20):
        machine.pass_time(0.5, **(shares if window % 2 else {}))
        assert meter.end_window() == (disturbed and window % 2 == 1)
    found = meter.conditions()
    assert (found.windows, found.busy_windows, len(meter.disturbed)) == (20, 10 * disturbed, 10 * disturbed)
    assert found.clean_taken == pytest.approx(0.0 if disturbed or "own" in shares else 0.04, abs=0.01)
    if disturbed:
        assert meter.disturbed[0] == (1000.5, 1001.0)
        assert condition_words(found).startswith("10 of 20 windows were disturbed: ")


def test_work_of_the_kernel_is_nobodys(machine: CountedMachine) -> None:
    before = read_conditions((SERVICE,), machine.counters)
    file = machine.root / "proc" / "6" / "stat"
    file.parent.mkdir()
    file.write_text(f"6 (kworker/0:1) S 2 {'0 ' * 9}99999 0 0 0 20 0 1 0\n")
    machine.pass_time(10.0)
    assert conditions_between(before, read_conditions((SERVICE,), machine.counters)).foreign == 0.0


def test_conditions_of_slices_are_joined_by_their_time() -> None:
    parts = [
        MachineConditions(seconds=3.0, cores=2, foreign=0.0, steal=0.0, throttled=None, windows=6, clean_taken=0.02),
        MachineConditions(seconds=1.0, cores=2, foreign=0.4, steal=None, throttled=None, windows=2, busy_windows=2),
    ]
    joined = joined_conditions(parts)
    assert (joined.foreign, joined.steal, joined.windows, joined.busy_windows, joined.clean_taken) == (
        pytest.approx(0.1), 0.0, 8, 2, 0.02,
    )  # fmt: skip


async def test_work_is_metered_and_its_error_is_raised(tmp_path: Path) -> None:
    machine = CountedMachine(tmp_path)

    async def work() -> int:
        machine.pass_time(0.6, other=0.5)
        return 7

    async def broken() -> None:
        raise ValueError("broken")

    answer, meter = await metered(work(), (SERVICE,), machine.counters)
    assert (answer, meter.conditions().windows, meter.disturbed) == (7, 1, [(1000.0, 1000.6)])
    with pytest.raises(ValueError, match="broken"):
        await metered(broken(), (SERVICE,), machine.counters)
    waiting = asyncio.create_task(metered(asyncio.sleep(60), (SERVICE,), machine.counters))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
