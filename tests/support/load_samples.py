"""Builds samples of load for tests."""

from collections.abc import Sequence

from evaluator.load.report import LoadPointReport
from evaluator.load.samples import LoadSample


def load_sample(number: int = 0, query: str = "q", latency_ms: float | None = 10.0, **given: object) -> LoadSample:
    """Returns a measured request; without a latency it has an error and counts with 10 s."""
    ids: Sequence[str] = given.pop("ids", ())  # type: ignore[assignment]
    content: dict[str, object] = {
        "number": number,
        "query": query,
        "pipeline": "bm25",
        "phase": "measured",
        "planned_s": number / 10,
        "latency_ms": latency_ms,
        "counted_ms": 10_000.0 if latency_ms is None else latency_ms,
        "send_lag_ms": 0.1,
        "hits": len(ids),
        "ranking": tuple((name, 1.0 / at) for at, name in enumerate(ids, start=1)),
        "error": "timeout" if latency_ms is None else None,
        **given,
    }
    return LoadSample.model_validate(content)


def load_point(
    pipeline: str,
    rate: float = 20.0,
    ndcg: float | None = 0.5,
    goodput: float = 20.0,
    p99_ms: float | None = 100.0,
    p99_interval: tuple[float, float] | None = (90.0, 110.0),
    **given: object,
) -> LoadPointReport:
    """Returns the figures of a point of load; those that are not given are those of a clean one."""
    latency = {
        "p50": 10, "p90": 20, "p95": 30, "p99": p99_ms, "p99_9": None, "max": 200, "n": 1_200,
        "intervals": {"p99": p99_interval},
    }  # fmt: skip
    counts = {
        "requests": 1_200, "answered": 1_200, "late": 0, "failed": 0, "dropped": 0, "errors_by_kind": {},
        "degraded": 0, "degraded_by_stage": {}, "no_hits": 0,
    }  # fmt: skip
    content: dict[str, object] = {
        "pipeline": pipeline,
        "fingerprint": "f",
        "loop": "open",
        "traffic": f"{rate:g}",
        "rate": rate,
        "in_flight": None,
        "seconds": 1_200 / rate,
        "counts": counts,
        "offered": rate,
        "goodput": goodput,
        "latency_ms": latency,
        "service_ms": latency,
        "quality": {"ndcg_at_10": ndcg, "degraded_share": 0, "reranked": None},
        "generators": {
            "processes": 1, "cpu": 0.1, "real_time": True, "send_lag_p50_ms": 0.1, "send_lag_p99_ms": 0.2, "send_lag_max_ms": 0.3,
        },
        "halves": None,
        "conditions": (),
        "cached": {},
        "timing_valid": True,
        "timing_faults": (),
        "warmup": 0,
        "files": {},
        **given,
    }  # fmt: skip
    return LoadPointReport.model_validate(content)
