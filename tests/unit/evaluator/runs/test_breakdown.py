"""Latency broken down into stages, parts and the gap; the slowest answers."""

import pytest

from evaluator.runs.answers import AnswerOutcome
from evaluator.runs.breakdown import gap_time, slowest_answers, stage_times


def answered(query: str, latency_ms: float, **timings_ms: float) -> AnswerOutcome:
    named = {name.replace("__", "."): ms for name, ms in timings_ms.items()}
    return AnswerOutcome(
        query=query, phase="measured", latency_ms=latency_ms, timings_ms=named, request_id=f"of-{query}"
    )


ANSWERS = [
    answered("q1", 10.0, dense=6.0, dense__encode=4.0, gateway__wait=0.5, total=7.5),
    answered("q2", 20.0, dense=12.0, dense__encode=2.0, gateway__wait=1.5, total=15.5),
]


def test_a_share_is_of_the_latency_of_all_answers() -> None:
    times = stage_times(ANSWERS, ["dense"])
    assert times["dense"].share == pytest.approx(18 / 30)
    assert times["dense.encode"].share == pytest.approx(6 / 30)
    assert (
        times["dense.encode"].p50.unchecked_ms,
        times["dense.encode"].p95.unchecked_ms,
        times["dense.encode"].n,
    ) == (2.0, 4.0, 2)


def test_queue_total_and_gap_add_up_to_the_latency() -> None:
    times, gap = stage_times(ANSWERS, ["dense"]), gap_time(ANSWERS)
    assert gap is not None
    assert (gap.p50.unchecked_ms, gap.p95.unchecked_ms, gap.n) == (2.0, 3.0, 2)
    assert sum(one.share or 0 for one in (times["gateway.wait"], times["total"], gap)) == pytest.approx(1.0)


def test_a_part_is_told_from_a_stage_whose_id_has_a_dot() -> None:
    answers = [answered("q", 9.0, a=3.0, a__b=2.0, a__b__wait=1.0, gateway__wait=0.0, total=8.0)]
    assert {key: one.part_of for key, one in stage_times(answers, ["a", "a.b"]).items() if one.part_of} == {
        "a.b.wait": "a.b"
    }
    assert stage_times(answers, ["a"])["a.b"].part_of == "a"


def test_the_slowest_hundredth_is_listed_slowest_first_with_the_id_that_finds_it() -> None:
    answers = [answered(f"q{number}", float(number % 150), total=1.0) for number in range(150)]
    assert [(one.query, one.request_id) for one in slowest_answers(answers)] == [
        ("q149", "of-q149"),
        ("q148", "of-q148"),
    ]
    assert [one.query for one in slowest_answers(answers[:3])] == ["q2"]
    assert slowest_answers([]) == ()
