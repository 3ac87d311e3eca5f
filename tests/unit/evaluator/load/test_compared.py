"""The judgment of a load against an earlier run, each divided by its calibration."""

import math
import re

import pytest

from evaluator.load.compared import (
    ComparedOutcome,
    LogEstimate,
    MachineRatio,
    binomial_ratios,
    calibration_faults,
    judge_ratio,
    log_estimate,
    machine_ratio,
    sampled_ratios,
)
from evaluator.load.compared_report import ComparedPoint, ComparedReport, compared_point
from evaluator.load.compared_table import render_compared
from evaluator.load.figures import load_percentiles
from tests.support.load_points import load_point
from tests.support.simulated_loads import QUIET, SimulatedLoad, simulated_calibration, simulated_load

SEEDS = range(4)  # tests/soak/compared.py has 20 of each
MARGIN = 0.05
POINT = load_point("bm25", n=60)
SAME = MachineRatio(log_estimate(1.0, (1.0, 1.0)), moved=0.0)
CHANGE = r"[+-]\d+\.\d %"


def compared(old: SimulatedLoad, new: SimulatedLoad, **given: object) -> ComparedPoint:
    return compared_point(
        POINT,
        POINT.model_copy(update=given),
        (old.samples, new.samples),
        (old.calibration, new.calibration),
        MARGIN,
        1,
    )


def outcomes(service: float, machine: float) -> list[ComparedOutcome]:
    return [
        compared(simulated_load(seed, "old"), simulated_load(seed, "new", service, machine)).outcome for seed in SEEDS
    ]


def test_a_run_is_never_slower_than_itself() -> None:
    for seed in SEEDS:
        run = simulated_load(seed, "old")
        assert compared(run, run).outcome == "not slower"
    assert "slower" not in outcomes(1.0, 1.0)


def test_a_slower_machine_with_a_slower_calibration_is_no_slower_service() -> None:
    assert "slower" not in outcomes(1.0, 1.3)


def test_a_service_15_percent_slower_on_the_same_machine_is_found() -> None:
    assert outcomes(1.15, 1.0).count("slower") >= len(SEEDS) - 1


def test_a_faster_machine_does_not_hide_a_slower_service() -> None:
    assert outcomes(1.3, 1 / 1.3).count("slower") >= len(SEEDS) - 1


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [(1.06, 1.2, "slower"), (0.9, 1.04, "not slower"), (1.01, 1.2, "cannot tell"), (0.5, 0.8, "not slower")],
)
def test_an_interval_that_holds_the_margin_tells_nothing(low: float, high: float, outcome: str) -> None:
    measured = log_estimate(math.sqrt(low * high), (low, high))
    assert judge_ratio("p50", measured, SAME, MARGIN).outcome == outcome


def test_the_interval_of_a_ratio_is_wider_than_those_of_its_parts() -> None:
    found = log_estimate(2.0, (1.8, 2.2)).over(log_estimate(4.0, (3.8, 4.2)))
    assert math.exp(found.value) == pytest.approx(0.5)
    # Worked by hand: the logarithms of 2/1.8 and 4.2/4 as the sides of a right angle, and of 2.2/2 and 4/3.8.
    assert found.interval == (pytest.approx(0.4452, abs=1e-4), pytest.approx(0.5572, abs=1e-4))


def test_the_range_of_the_readings_of_both_runs_widens_the_interval() -> None:
    still, moved = (simulated_calibration("a", 1.0, after) for after in (1.0, 1.2))
    measured = log_estimate(1.0, (0.98, 1.02))
    intervals = []
    for calibrations in ((still, still), (still, moved), (moved, moved)):
        machine = machine_ratio(*calibrations)
        assert machine is not None
        low, high = judge_ratio("p50", measured, machine, MARGIN).interval
        intervals.append(math.log(high / low))
    # The ends lie further out by half of a range, at both sides.
    assert intervals[1] - intervals[0] == pytest.approx(math.log(1.2), abs=0.01)
    assert intervals[2] - intervals[0] == pytest.approx(2 * math.log(1.2), abs=0.02)


@pytest.mark.parametrize(
    ("service", "outcome"), [(600.0, "slower"), (1.15, "cannot tell"), (1.0, "cannot tell"), (0.5, "not slower")]
)
def test_a_machine_that_became_slower_while_the_load_ran_hides_small_changes_alone(
    service: float, outcome: str
) -> None:
    old, new = simulated_load(1, "old"), simulated_load(1, "new", service)
    moved = SimulatedLoad(new.samples, simulated_calibration("a", 1.0, 1.2))
    point = compared(old, moved)
    assert (point.outcome, point.faults) == (outcome, ())


@pytest.mark.parametrize("slower_while_loaded", [(True, False), (False, True)])
def test_no_speed_between_the_readings_is_an_alarm(slower_while_loaded: tuple[bool, bool]) -> None:
    runs = [
        SimulatedLoad(
            simulated_load(1, name, machine=1.2 if slower else 1.0).samples, simulated_calibration(name, 1.0, 1.2)
        )
        for name, slower in zip(("old", "new"), slower_while_loaded, strict=True)
    ]
    assert compared(*runs).outcome == "cannot tell"


def test_busy_readings_and_those_of_too_few_answers_tell_no_speed() -> None:
    assert not list(calibration_faults(simulated_calibration("a", 1.0, 1.2)))
    busy = simulated_calibration("a", 1.0, 1.0, foreign=0.4)
    assert list(calibration_faults(busy)) == [
        f"{when} the load, other processes used 40% of the CPU (limit 10%)" for when in ("before", "after")
    ]
    short = busy.before.model_copy(update={"service_ms": load_percentiles([2.6]), "conditions": QUIET})
    few = busy.model_copy(update={"before": short, "after": short})
    assert list(calibration_faults(few)) == ["the calibration stub gave too few answers"]


def test_without_samples_the_intervals_of_both_runs_are_combined() -> None:
    old, new = (simulated_load(1, run).samples for run in ("old", "new"))
    kept = [load_percentiles([one.counted_ms for one in samples]) for samples in (old, new)]
    apart, paired = binomial_ratios(*kept), sampled_ratios(old, new, seed=1)
    for name in ("p50", "p95"):
        assert apart[name].value == pytest.approx(paired[name].value, abs=0.01)  # type: ignore[index]
    assert width(apart["p50"]) > width(paired["p50"])
    assert binomial_ratios(load_percentiles([1.0]), load_percentiles([1.0])) == {}


def width(estimate: LogEstimate) -> float:
    return estimate.high - estimate.low


def test_times_that_are_not_valid_and_other_requests_are_not_judged() -> None:
    old, new = simulated_load(1, "old"), simulated_load(1, "new", service=2.0)
    busy = compared(old, new, timing_valid=False, timing_faults=("the generators were late",))
    assert (busy.outcome, busy.faults) == ("cannot tell", ("the new run: the generators were late",))
    other = compared(old, SimulatedLoad(new.samples[1:], new.calibration))
    assert (other.outcome, other.faults) == ("cannot tell", ("the requests are not those of the old run",))


def test_the_table_and_the_gates_say_what_was_found_of_each_point() -> None:
    old, new = simulated_load(1, "old"), simulated_load(1, "new", service=1.5)
    doubtful = compared(old, new, timing_valid=False, timing_faults=("too busy",))
    points = (compared(old, old), compared(old, new), doubtful)
    report = ComparedReport(
        old="runs/old",
        old_sha256="0",
        margin=MARGIN,
        old_calibration=old.calibration,
        new_calibration=simulated_calibration("a", 1.0, 1.2),
        points=points,
        remarks=("commit a, now b",),
    )
    assert (report.slower, report.told) == (True, False)
    assert [case.held for case in report.cases] == [True, False, False]
    assert [case.name for case in report.cases] == ["bm25 at 20/s: not slower by more than 0.05"] * 3
    ratios = rf"\(p50 {CHANGE}, 95 % interval {CHANGE} to {CHANGE}; p95 {CHANGE}, 95 % interval {CHANGE} to {CHANGE}\)"
    table, *sentences, movement, remarks = render_compared(report).split("\n\n")
    _, _, *rows = table.splitlines()
    assert len(rows) == 2 * len(points)
    # Both times of the point that is not valid, and of no other.
    assert [row.count("?") for row in rows] == [0, 0, 0, 0, 0, 2]
    assert re.fullmatch(
        r"The calibration stub took 2\.\d\d ms before the new load and 3\.\d\d ms after it: the speed of the machine "
        r"changed by more than the margin, which makes the intervals wider\.",
        movement,
    )
    assert re.fullmatch(rf"bm25 at 20/s: not slower by more than 5\.0% {ratios}\.", sentences[0])
    assert re.fullmatch(rf"bm25 at 20/s: slower by more than 5\.0% {ratios}\.", sentences[1])
    assert sentences[2] == "bm25 at 20/s: cannot tell: the new run: too busy."
    assert remarks == "Also different from the old run: commit a, now b."
