"""Builds samples of load for tests."""

from collections.abc import Sequence

from evaluator.load.sending.samples import LoadSample


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
