"""What a search for the capacity takes from a look at a rate, and what it keeps of it."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from evaluator.load.load_step import rate_sample, search_slice
from evaluator.load.sending.drives import GeneratorUse, LoadedPoint
from evaluator.machine.machine_conditions import MachineConditions
from tests.support.load_points import CLEAN
from tests.support.load_samples import load_sample


def look(latency_ms: float, lag_ms: float) -> LoadedPoint:
    """Returns a look at a rate whose sends were so late, the first of them a warm-up."""
    samples = [load_sample(at, latency_ms=latency_ms, send_lag_ms=lag_ms) for at in range(40)]
    samples[0] = load_sample(0, latency_ms=latency_ms, phase="warmup")
    conditions = MachineConditions.model_validate(CLEAN)
    return LoadedPoint(tuple(samples), conditions, (GeneratorUse(0.1, 4.0),), True, datetime.now(UTC), 4.0)


@pytest.mark.parametrize(
    ("latency_ms", "lag_ms", "fault"),
    [(20.0, 0.9, False), (20.0, 1.1, True), (400.0, 3.9, False), (400.0, 4.1, True)],
)
def test_a_send_lag_is_judged_as_at_every_rate_whatever_the_bound(
    latency_ms: float, lag_ms: float, fault: bool
) -> None:
    sample = rate_sample(look(latency_ms, lag_ms))
    assert len(sample.counted_ms) == 39
    assert bool(sample.faults) == fault


def test_a_look_without_requests_has_no_lag_to_judge() -> None:
    assert rate_sample(replace(look(20.0, 0.1), samples=())).faults == ()


def test_the_requests_of_a_look_are_kept_in_the_file_of_the_search_with_their_rate() -> None:
    part = search_slice("bm25", 40.0, look(20.0, 0.1), 3)
    assert (part.traffic, part.pipeline) == ("search", "bm25")
    assert {(one.rate, one.slice) for one in part.loaded.samples} == {(40.0, 3)}
    assert '"rate":40.0' in part.loaded.samples[0].line
    assert '"rate"' not in load_sample().line
