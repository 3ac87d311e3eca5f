"""Which times of a run count, and whether they hold: each reason alone, and none."""

from pathlib import Path

from evaluator.machine.machine_conditions import MachineConditions
from evaluator.runs.answers import AnswerOutcome, Phase
from evaluator.runs.timing_validity import (
    conditions_of,
    disturbance,
    latency_of,
    timed_answers,
    timing_faults,
    write_conditions,
)

QUIET = MachineConditions(seconds=60, cores=2, foreign=0.01, steal=0.009, throttled=None, windows=120, busy_windows=30)


def answer(query: str, ms: float | None, phase: Phase = "measured", *, disturbed: bool = False) -> AnswerOutcome:
    error = "timeout" if ms is None else None
    return AnswerOutcome(query=query, phase=phase, latency_ms=ms, disturbed=disturbed, error=error)


def test_of_a_query_that_was_asked_again_the_last_answered_time_counts() -> None:
    records = [
        answer("a", 10.0),
        answer("b", 90.0, disturbed=True),
        answer("c", 95.0, disturbed=True),
        answer("b", 12.0, "again"),
        answer("c", 91.0, "again", disturbed=True),
        answer("c", None, "again"),
        answer("a", 99.0, "deep"),
        answer("lost", None),
        answer("lost", 5.0, "again"),
    ]
    assert {record.query: record.latency_ms for record in timed_answers(records)} == {"a": 10.0, "b": 12.0, "c": 91.0}
    found = latency_of(records)
    assert (found.n, found.disturbed, found.max.unchecked_ms) == (3, 1 / 3, 91.0)


def test_a_warmup_of_which_nothing_was_answered_is_a_reason_and_an_answered_one_is_none() -> None:
    (reason,) = timing_faults({"bm25": [answer("q", None, "warmup")]}, caches=False)
    assert "none of 1 warm-up queries was answered" in reason
    assert timing_faults({"bm25": [answer("q", 1.0, "warmup"), answer("a", 3.0)]}, caches=False) == ()


def test_disturbed_answers_are_a_reason_only_where_they_leave_a_figure_a_wide_interval() -> None:
    even = latency_of([answer(str(at), 10.0, disturbed=at < 30) for at in range(100)])
    assert list(disturbance({"bm25": even}, QUIET)) == []
    spread = latency_of([answer(str(at), 10.0 + at, disturbed=at < 30) for at in range(100)])
    (reason,) = disturbance({"bm25": even, "dense": spread}, QUIET)
    assert reason.startswith("2 of 4 percentiles are known only within an interval")
    assert "other work disturbed up to 30% of the answers" in reason
    assert "30 of 120 windows were disturbed" in reason


def test_conditions_are_read_as_they_were_written(tmp_path: Path) -> None:
    assert conditions_of(tmp_path) is None
    write_conditions(tmp_path, QUIET)
    assert conditions_of(tmp_path) == QUIET
