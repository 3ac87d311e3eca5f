"""What capacity.json says: figures at multiples of the capacity, the knee, and a sentence."""

import pytest

from evaluator.load.capacity import (
    CapacityMultiple,
    FoundCapacity,
    MeasuredRate,
    capacity_report,
    knee,
    multiple_rates,
    render_capacity,
)
from tests.support.load_points import load_point

CARRIED = MeasuredRate(rate=80, seconds=10, requests=320, over=0, lost=0, p99_ms=None, outcome="carried", reasons=())
FOUND = FoundCapacity(bound_ms=500, outcome="found", rate=80, reasons=(), measured=(CARRIED,) * 6)


def at(multiple: float, goodput: float, p95_ms: float | None) -> CapacityMultiple:
    return CapacityMultiple(
        multiple=multiple, rate=80 * multiple, goodput=goodput, ndcg_a_second=1, p95_ms=p95_ms, timing_valid=True
    )


def test_five_rates_are_swept_and_goodput_is_told_to_four_times_the_capacity() -> None:
    assert dict(multiple_rates(FOUND)) == {0.1: 8, 0.45: 36, 0.8: 64, 1: 80, 1.15: 92, 1.5: 120, 2: 160, 4: 320}
    assert list(multiple_rates(FOUND.model_copy(update={"outcome": "none", "rate": None}))) == []


def test_the_knee_has_the_most_goodput_for_its_p95() -> None:
    swept = [at(0.1, 8, 10), at(0.45, 36, 12), at(0.8, 64, 30), at(1.0, 80, 20), at(1.15, 80, 900), at(1.5, 60, None)]
    assert knee(swept) == 36
    assert knee([]) is None


def test_the_knee_is_not_told_where_times_below_the_capacity_are_not_valid() -> None:
    swept = [at(0.1, 8, 10), at(0.8, 64, 339).model_copy(update={"timing_valid": False}), at(1.5, 60, 900)]
    assert knee(swept) is None
    beyond = [swept[0], at(0.8, 64, 30), swept[2].model_copy(update={"timing_valid": False})]
    assert knee(beyond) == 64
    busy = load_point("bm25", 64, foreign=0.4)
    assert "the knee cannot be told" in capacity_report("bm25", FOUND, [(0.8, busy)]).sentence


def test_quality_a_second_counts_late_and_lost_requests_as_nothing() -> None:
    # 40 requests a second, half of them answered in time with an nDCG@10 of 1.
    point = load_point("bm25", rate=40, n=800, lost=400)
    report = capacity_report("bm25", FOUND, [(0.5, point)])
    assert (report.multiples[0].goodput, report.multiples[0].ndcg_a_second) == (20, 20)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({}, "bm25 carries 80/s with p99 <= 500 ms in 5 of 5 verifications."),
        (
            {"outcome": "none", "rate": None, "reasons": ("lower than 2.85/s cannot be told in 120 s",)},
            "bm25 carries no rate with p99 <= 500 ms: lower than 2.85/s cannot be told in 120 s.",
        ),
        (
            {"outcome": "cannot tell", "rate": None, "reasons": ("at 10/s: steal",)},
            "This machine cannot tell which rate bm25 carries with p99 <= 500 ms: at 10/s: steal.",
        ),
    ],
)
def test_every_outcome_is_one_sentence(found: dict[str, object], said: str) -> None:
    report = capacity_report("bm25", FOUND.model_copy(update=found), [])
    assert render_capacity(report).splitlines()[0] == said
