"""What a point has of its slices: the cost of a request, refusals, and one clock."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from evaluator.experiments.gates import Gates, judge_gates
from evaluator.load.load_report import gated_point
from evaluator.load.page.load_page import render_load_page
from evaluator.load.page.tables import cost_rows
from evaluator.load.points.point_report import LoadPointReport, on_one_clock, point_cost
from evaluator.load.sending.driven_traffic import TimeSlice
from evaluator.load.sending.drives import GeneratorUse, LoadedPoint
from evaluator.load.sending.samples import DROPPED
from evaluator.machine.machine_conditions import MachineConditions
from evaluator.machine.process_costs import MIB, STARTED_ANEW, ProcessCost
from tests.support.load_points import CLEAN, load_point, load_report
from tests.support.load_samples import load_sample

CONDITIONS = MachineConditions.model_validate(CLEAN)
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
GATEWAY = ProcessCost(cpu_ms=120.0, memory_bytes=100 * MIB)


def driven(costs: Mapping[str, ProcessCost], sent: int = 10, pipeline: str = "bm25") -> LoadedPoint:
    """Returns a slice of requests of which the first failed, beside one that was dropped."""
    failed = load_sample(0, latency_ms=None, pipeline=pipeline, error="timeout")
    dropped = load_sample(1, latency_ms=None, pipeline=pipeline, error=DROPPED)
    samples = [load_sample(number, pipeline=pipeline) for number in range(2, sent + 1)]
    return LoadedPoint((failed, dropped, *samples), CONDITIONS, (GeneratorUse(0.1, 1.0),), True, BEGAN, 5.0, costs)


def test_cpu_is_a_mean_over_the_sent_requests_of_all_slices_and_memory_that_after_the_last_one() -> None:
    later = ProcessCost(cpu_ms=80.0, memory_bytes=110 * MIB)
    cost = point_cost([driven({"gateway": GATEWAY}), driven({"gateway": later})])
    assert cost is not None
    assert (cost.queries, cost.lost, cost.seconds, cost.cpu_ms) == (20, 2, 10.0, 10.0)
    assert cost.processes["gateway"] == ProcessCost(cpu_ms=10.0, memory_bytes=110 * MIB)


def test_without_named_processes_there_is_no_cost() -> None:
    assert point_cost([driven({})]) is None


def costed(costs: Mapping[str, ProcessCost]) -> LoadPointReport:
    return load_point().model_copy(update={"cost": point_cost([driven(costs)])})


ANEW = ProcessCost(cpu_ms=None, memory_bytes=1, reason=STARTED_ANEW)


@pytest.mark.parametrize(
    ("point", "beside", "judged"),
    [
        (load_point(), 30.0, (30.0, False, None)),
        (costed({"gateway": GATEWAY}), 30.0, (12.0, True, None)),
        (costed({"gateway": GATEWAY, "dense": ANEW}), 15.0, (None, False, f"dense: {STARTED_ANEW}")),
    ],
    ids=["the cost beside the load", "the cost of the point", "a process that was started anew"],
)
def test_the_cpu_gate_takes_the_cost_of_the_point_or_else_the_one_measured_beside_the_load(
    point: LoadPointReport, beside: float, judged: tuple[float | None, bool, str | None]
) -> None:
    (outcome,) = judge_gates(Gates(cpu_ms=20), [gated_point(point, beside)], "bm25")
    assert (outcome.value, outcome.held, outcome.reason) == judged
    (unknown,) = judge_gates(Gates(cpu_ms=20), [gated_point(load_point(), None)], "bm25")
    assert (unknown.value, unknown.held) == (None, False)


def test_the_page_shows_cpu_by_process_and_its_memory() -> None:
    report = load_report(costed({"gateway": GATEWAY}), load_point("bm25"))
    assert cost_rows(report)[1] == ["hybrid", "20/s", "12.0", "12.0", "10", "1"]
    assert "## Cost" in render_load_page("shop", report, ())
    assert "## Cost" not in render_load_page("shop", load_report(load_point()), ())


def test_slices_are_apart_as_the_monotonic_clock_has_it_where_the_wall_clock_was_set_back() -> None:
    slices = [
        TimeSlice("20/s", "bm25", LoadedPoint((load_sample(),), CONDITIONS, (), True, began, 1.0, began_s=at_s), 0, 0)
        for began, at_s in ((BEGAN, 500.0), (BEGAN - timedelta(hours=1), 560.0))
    ]
    assert [at_s for at_s, _ in on_one_clock(slices)] == [0.0, 60.0]
