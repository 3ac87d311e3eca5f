"""The judgment of a load against an earlier run, each divided by its calibration."""

import math
import re

import pytest

from evaluator.load.compared import (
    ComparedOutcome,
    LogEstimate,
    binomial_ratios,
    calibration_faults,
    judge_ratio,
    log_estimate,
    machine_time,
    sampled_ratios,
)
from evaluator.load.compared_report import ComparedPoint, ComparedReport, compared_point
from evaluator.load.compared_table import render_compared
from evaluator.load.figures import load_percentiles
from tests.support.load_points import load_point
from tests.support.simulated_loads import SimulatedLoad, simulated_calibration, simulated_load

SEEDS = range(4)  # tests/soak/compared.py has 20 of each
MARGIN = 0.05
POINT = load_point("bm25", n=60)
SAME = log_estimate(1.0, (1.0, 1.0))
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


def test_the_speed_of_a_machine_lies_anywhere_between_its_readings() -> None:
    found = machine_time(simulated_calibration("a", 1.0, 1.04))
    assert found is not None
    low, high = found.interval
    assert low < 2.6
    assert high > 2.6 * 1.04


def test_readings_further_apart_than_the_margin_and_busy_ones_tell_no_speed() -> None:
    assert not list(calibration_faults(simulated_calibration("a", 1.0, 1.02), MARGIN))
    (fault,) = calibration_faults(simulated_calibration("a", 1.0, 1.2), MARGIN)
    assert re.fullmatch(
        r"the calibration stub took 2\.\d\d ms before the load and 3\.\d\d ms after it, "
        r"further apart than the margin of 5\.0%",
        fault,
    )
    faults = list(calibration_faults(simulated_calibration("a", 1.0, 1.0, foreign=0.4), MARGIN))
    assert faults == [
        f"{when} the load, other processes used 40% of the CPU (limit 10%)" for when in ("before", "after")
    ]


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
    points = (compared(old, old), compared(old, new), compared(old, new, timing_faults=("too busy",)))
    report = ComparedReport(
        old="runs/old",
        old_sha256="0",
        margin=MARGIN,
        old_calibration=old.calibration,
        new_calibration=new.calibration,
        points=points,
        remarks=("commit a, now b",),
    )
    assert (report.slower, report.told) == (True, False)
    assert [case.held for case in report.cases] == [True, False, False]
    assert [case.name for case in report.cases] == ["bm25 at 20/s: not slower by more than 0.05"] * 3
    ratios = rf"\(p50 {CHANGE}, 95 % interval {CHANGE} to {CHANGE}; p95 {CHANGE}, 95 % interval {CHANGE} to {CHANGE}\)"
    table, *sentences, remarks = render_compared(report).split("\n\n")
    assert len(table.splitlines()) == 2 + 2 * len(points)
    assert re.fullmatch(rf"bm25 at 20/s: not slower by more than 5\.0% {ratios}\.", sentences[0])
    assert re.fullmatch(rf"bm25 at 20/s: slower by more than 5\.0% {ratios}\.", sentences[1])
    assert sentences[2] == "bm25 at 20/s: cannot tell: the new run: too busy."
    assert remarks == "Also different from the old run: commit a, now b."
