"""What a request of a point cost: over its slices, of the requests that were sent, and where it cannot be told."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from evaluator.experiments.gates import GateOutcome, Gates, judge_gates
from evaluator.load.page.load_page import render_load_page
from evaluator.load.page.tables import cost_rows, load_warnings
from evaluator.load.points.point_cost import LOADING, point_cost
from evaluator.load.points.point_report import LoadPointReport
from evaluator.load.report import gated_point
from evaluator.load.sending.drives import LoadedPoint
from evaluator.load.sending.loading_figures import SliceLoading
from evaluator.load.sending.samples import DROPPED
from evaluator.load.statistics.validity import GeneratorUse
from evaluator.machine.machine_conditions import MachineConditions
from evaluator.machine.process_costs import MIB, STARTED_ANEW, ProcessCost
from tests.support.load_points import CLEAN, load_point, load_report
from tests.support.load_samples import load_sample

CONDITIONS = MachineConditions.model_validate(CLEAN)
GATEWAY = ProcessCost(cpu_ms=120.0, memory_bytes=100 * MIB)


def driven(costs: Mapping[str, ProcessCost], sent: int = 10, pipeline: str = "bm25") -> LoadedPoint:
    """Returns a slice of requests of which the first failed, beside one that was dropped."""
    failed = load_sample(0, latency_ms=None, pipeline=pipeline, error="timeout")
    dropped = load_sample(1, latency_ms=None, pipeline=pipeline, error=DROPPED)
    samples = [load_sample(number, pipeline=pipeline) for number in range(2, sent + 1)]
    return LoadedPoint(
        (failed, dropped, *samples),
        CONDITIONS,
        (GeneratorUse(0.1, 1.0),),
        True,
        datetime(2026, 1, 1, tzinfo=UTC),
        5.0,
        costs,
    )


def test_cpu_is_a_mean_over_the_sent_requests_of_all_slices_and_memory_that_after_the_last_one() -> None:
    later = ProcessCost(cpu_ms=80.0, memory_bytes=110 * MIB)
    cost, reason = point_cost([driven({"gateway": GATEWAY}), driven({"gateway": later})])
    assert cost is not None
    assert (cost.queries, cost.lost, cost.seconds, cost.cpu_ms) == (20, 2, 10.0, 10.0)
    assert cost.processes["gateway"] == ProcessCost(cpu_ms=10.0, memory_bytes=110 * MIB)
    assert reason is None


def test_without_named_processes_there_is_neither_a_cost_nor_a_reason() -> None:
    assert point_cost([driven({})]) == (None, None)


def costed(costs: Mapping[str, ProcessCost]) -> LoadPointReport:
    cost, reason = point_cost([driven(costs)])
    return load_point().model_copy(update={"cost": cost, "cost_reason": reason})


def judged_cpu(point: LoadPointReport, beside: float | None) -> GateOutcome:
    (outcome,) = judge_gates(Gates(cpu_ms=20), [gated_point(point, beside)])
    return outcome


@pytest.mark.parametrize(("beside", "value", "held"), [(30.0, 30.0, False), (None, None, False), (15.0, 15.0, True)])
def test_the_cpu_gate_of_a_point_without_a_cost_takes_the_one_measured_beside_the_load(
    beside: float | None, value: float | None, held: bool
) -> None:
    outcome = judged_cpu(load_point(), beside)
    assert (outcome.value, outcome.held) == (value, held)


def test_the_cpu_gate_takes_the_cost_of_the_point_where_there_is_one() -> None:
    outcome = judged_cpu(costed({"gateway": GATEWAY}), beside=30.0)
    assert (outcome.value, outcome.held) == (12.0, True)


def test_the_cpu_gate_names_the_process_that_was_started_anew() -> None:
    anew = ProcessCost(cpu_ms=None, memory_bytes=1, reason=STARTED_ANEW)
    outcome = judged_cpu(costed({"gateway": GATEWAY, "dense": anew}), beside=15.0)
    assert (outcome.value, outcome.held, outcome.reason) == (None, False, f"dense: {STARTED_ANEW}")


def test_a_process_that_was_started_anew_is_named_beside_the_table() -> None:
    anew = ProcessCost(cpu_ms=None, memory_bytes=1, reason=STARTED_ANEW)
    told = load_warnings(load_report(costed({"gateway": GATEWAY, "dense": anew})))
    assert f"hybrid at 20/s: no CPU time in total: dense: {STARTED_ANEW}" in told


def test_the_page_shows_cpu_by_process() -> None:
    report = load_report(costed({"gateway": GATEWAY}), load_point("bm25"))
    assert cost_rows(report)[1] == ["hybrid", "20/s", "12.0", "12.0", "10", "1"]
    assert "## Cost" in render_load_page("shop", report, ())
    assert "## Cost" not in render_load_page("shop", load_report(load_point()), ())


def test_a_point_while_the_corpus_was_loaded_has_a_reason_and_no_cost() -> None:
    meanwhile = replace(driven({"gateway": GATEWAY}), loading=SliceLoading(64, 5.0, None))
    assert point_cost([meanwhile]) == (None, LOADING)
    assert point_cost([replace(meanwhile, costs={})]) == (None, None)  # no process was named
