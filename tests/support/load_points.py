"""Builds points of load for tests: seeded latencies of a pipeline of two inputs and a re-ranking."""

import functools
import random
from datetime import UTC, datetime
from typing import Any

from evaluator.experiments.load_plan import LoadPlan
from evaluator.load.load_report import LoadReport
from evaluator.load.points.point_report import LoadPointReport, point_report
from evaluator.load.sending.driven_traffic import TimeSlice
from evaluator.load.sending.drives import GeneratorUse, LoadedPoint
from evaluator.load.sending.traffic import LoadTarget, Traffic
from evaluator.machine.machine_conditions import MachineConditions
from evaluator.steps.arms import Arm
from services.contracts.pipelines import Pipeline
from tests.support.load_samples import load_sample

CLEAN = {"seconds": 60.0, "cores": 2, "foreign": 0.02, "steal": 0.0, "throttled": 0.0}
FIRST_STAGES = [{"kind": "retrieve", "id": id, "backend": backend, "top": 20} for id, backend in
                (("bm25", "lexical"), ("dense", "dense"))]  # fmt: skip


def two_input_pipeline(name: str) -> Pipeline:
    """Returns a pipeline of two fused inputs and a re-ranking; its name is all that differs."""
    fuse = {"kind": "fuse", "id": "fuse", "method": "rrf", "inputs": FIRST_STAGES}
    rerank = {"kind": "rerank", "id": "rerank", "backend": "reranker", "top": 10}
    return Pipeline.model_validate({"name": name, "stages": [fuse, rerank]})


@functools.cache
def load_point(
    name: str = "hybrid",
    rate: float = 20.0,
    mean_ms: float = 20.0,
    n: int = 700,
    lost: int = 0,
    disturbed: float = 0.0,
    cpu: float = 0.1,
) -> LoadPointReport:
    """Returns the figures of `n` requests, the first `lost` of them failed, and a share of them disturbed.

    `cpu`: of a core, that the generator used; above 0.5 it is a fault.
    """
    dice = random.Random(f"{name} {rate}")
    samples = []
    for number in range(n):
        ms = mean_ms * (0.5 + dice.expovariate(2))
        timings = {"bm25": ms * 0.2, "dense": ms * 0.3, "dense.encode": ms * 0.2, "fuse": ms * 0.02,
                   "rerank": ms * 0.4, "rerank.wait": ms * 0.1,
                   "total": ms * 0.8, "gateway.wait": ms * 0.1}  # fmt: skip
        given: dict[str, Any] = {"ids": ("good",), "timings_ms": timings, "request_id": f"r{number}"}
        if number < lost:
            samples.append(load_sample(number, latency_ms=None, pipeline=name))
        else:
            given["disturbed"] = number < disturbed * n
            samples.append(load_sample(number, latency_ms=ms, pipeline=name, **given))
    conditions = MachineConditions.model_validate(CLEAN)
    loaded = LoadedPoint(
        tuple(samples), conditions, (GeneratorUse(cpu, 1.0),), True, datetime(2026, 1, 1, tzinfo=UTC), n / rate
    )
    target = LoadTarget(
        url="", top=10, deadline_ms=10_000, queries=("q",), bodies={}, excluded=frozenset(),
        reranks={name: {"rerank": 10}}, caches=False,
    )  # fmt: skip
    return reported_point(name, loaded, rate, n / rate, target)


def reported_point(name: str, loaded: LoadedPoint, rate: float, seconds: float, target: LoadTarget) -> LoadPointReport:
    """Returns the figures of one slice of a rate; the document `good` answers every query."""
    pipeline, traffic = two_input_pipeline(name), Traffic(f"{rate:g}", rate=rate)
    judgments = {query: {"good": 1} for query in target.queries}
    return point_report(
        Arm(name, name, pipeline, None), traffic, [TimeSlice(traffic.name, name, loaded, 0, 0)],
        LoadPlan(rates=(rate,), seconds=seconds), target, judgments, {},
    )  # fmt: skip


def load_report(*points: LoadPointReport) -> LoadReport:
    """Returns a report of these points."""
    return LoadReport(
        made_from={},
        plan=LoadPlan(rates=tuple(dict.fromkeys(point.rate or 20.0 for point in points))),
        seed=1,
        points=points,
        timing_valid=all(point.timing_valid for point in points),
        remarks=(),
    )
