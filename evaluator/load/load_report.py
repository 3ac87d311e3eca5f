"""Defines load.json, and which of its points gates are judged by. Pure."""

from collections.abc import Iterator

from evaluator.experiments.gates import GatedFigures, GateName, GateOutcome, Gates
from evaluator.experiments.load_plan import LoadPlan
from evaluator.load.capacity import CapacityReport
from evaluator.load.points.best_under import BestUnder, QualityDifference
from evaluator.load.points.point_report import LoadPointReport, missing_cpu
from evaluator.load.points.ratios import PercentileRatio
from evaluator.runs.latency import MIN_SAMPLES_FOR_P99
from evaluator.runs.run_folder import StepFile
from services.contracts.base import Count

LOAD = "load.json"


def gated_point(point: LoadPointReport, cpu_ms: float | None) -> GatedFigures:
    """Returns the figures of a point that gates bound.

    `cpu_ms`: a query of its pipeline, measured beside the load; it counts where the point has no cost of its own.
    """
    lost = point.counts.failed + point.counts.late + point.counts.dropped
    cpu_missing_reason = "the CPU time of the processes was not measured"
    if point.cost is not None:
        cpu_ms, cpu_missing_reason = point.cost.cpu_ms, missing_cpu(point.cost)
    return GatedFigures(
        pipeline=point.pipeline,
        traffic=point.traffic_in_words,
        # Other work only lengthens: a time that it disturbed keeps a bound all the same.
        p95_ms=None if point.timing_faults else point.latency_ms.p95.unchecked_ms,
        p99_ms=None if point.timing_faults else point.latency_ms.p99.unchecked_ms,
        ndcg_at_10=point.quality.ndcg_at_10,
        errors=lost / point.counts.requests if point.counts.requests else None,
        degraded=point.counts.degraded / point.counts.requests if point.counts.requests else None,
        cpu_ms=cpu_ms,
        missing={
            "p95_ms": "the times are not valid" if point.timing_faults else "no request was sent",
            "p99_ms": f"{point.counts.requests} of the {MIN_SAMPLES_FOR_P99} requests that a p99 needs"
            if not point.timing_faults
            else "the times are not valid",
            "ndcg_at_10": "no request was sent",
            "errors": "no request was sent",
            "degraded": "no request was sent",
            "cpu_ms": cpu_missing_reason,
        },
        least={"p95_ms": point.latency_ms.least.get("p95"), "p99_ms": point.latency_ms.least.get("p99")},
        unfit=frozenset({"p95_ms", "p99_ms"}) if point.loop == "closed" else frozenset(),
    )


def unjudged_gates(gates: Gates | None, plan: LoadPlan) -> Iterator[str]:
    """Yields a sentence for each gate that a plan's traffic cannot be judged by."""
    if gates is None:
        return
    if plan.capacity is not None:
        yield "gates are judged at the planned rates, not at the points of the search for the capacity"
    if plan.in_flight:
        unfit: tuple[GateName, ...] = ("p95_ms", "p99_ms")
        for gate in filter(gates.bounds, unfit):
            yield f"the gate {gate} is not judged of a closed loop, which gives no {gate[:3]}"
    if any(isinstance(bound, str) for bound in gates.bounds("ndcg_at_10")):
        yield "the gate ndcg_at_10 is relative to the baseline, which is judged by `rank`, not under load"


class LoadReport(StepFile):
    """load.json, the last file of the step."""

    made_from: dict[str, str]
    plan: LoadPlan
    seed: Count
    caches: bool = False  # services were allowed to answer from their caches
    points: tuple[LoadPointReport, ...]
    ratios: tuple[PercentileRatio, ...] = ()  # of pipelines that had the same planned requests
    gates: tuple[GateOutcome, ...] = ()  # of the points of the plan, not of a search for the capacity
    quality_differences: tuple[QualityDifference, ...] = ()  # of pipelines at the rates of the plan
    best_under: tuple[BestUnder, ...] = ()  # by rate; none without a bound in the plan
    capacities: tuple[CapacityReport, ...] = ()  # by pipeline, as in capacity.json; none without a search
    timing_valid: bool
    remarks: tuple[str, ...]  # what a reader should know although the times are valid
