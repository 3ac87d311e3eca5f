"""Whether the times of a run hold: each reason alone, and none."""

from pathlib import Path

import pytest

from evaluator.machine.machine_conditions import MachineConditions
from evaluator.runs.answers import AnswerOutcome
from evaluator.runs.latency import summarise
from evaluator.runs.timing_validity import ConditionsLog, conditions_of, timing_faults
from tests.support.machine_counters import SERVICE, CountedMachine

QUIET = MachineConditions(seconds=60, cores=2, foreign=0.09, steal=0.009, throttled=0.009)


def samples(drift: float, n: int = 200) -> dict[str, list[float]]:
    """Times of a pipeline whose later half takes `drift` times as long as the earlier one."""
    half = [10 + at % 10 for at in range(n // 2)]
    return {"bm25": [*half, *(drift * ms for ms in half)]}


def warmup(error: str | None) -> dict[str, list[AnswerOutcome]]:
    return {"bm25": [AnswerOutcome(query="q", phase="warmup", error=error, latency_ms=None if error else 1)]}


@pytest.mark.parametrize("drift", [0.91, 1.0, 1.09])
def test_times_hold_on_a_quiet_machine_after_an_answered_warmup(drift: float) -> None:
    assert not list(timing_faults(samples(drift), warmup(None), None, QUIET))


@pytest.mark.parametrize(
    ("drift", "words"), [(0.89, "11% less time than"), (1.11, "11% longer than"), (3.0, "200% longer than")]
)
def test_a_drift_beyond_a_tenth_in_either_direction_is_a_reason(drift: float, words: str) -> None:
    (reason,) = timing_faults(samples(drift), warmup(None), None, QUIET)
    assert reason == f"bm25: the later half took {words} the earlier one (drift, limit 10%)"


def test_a_drift_that_chance_explains_is_none() -> None:
    slow_at_the_end = {"bm25": [5.0, 6.0, 5.0, 7.0, 6.0, 9.0]}
    assert summarise(slow_at_the_end["bm25"]).drift == 1.4
    assert not list(timing_faults(slow_at_the_end, warmup(None), None, QUIET))


def test_a_warmup_of_which_nothing_was_answered_is_a_reason() -> None:
    (reason,) = timing_faults(samples(1.0), warmup("timeout"), None, QUIET)
    assert "none of 1 warm-up queries was answered" in reason


@pytest.mark.parametrize("named", ["foreign", "steal", "throttled"])
def test_each_counter_beyond_its_limit_is_a_reason_and_without_the_counter_there_is_none(named: str) -> None:
    (reason,) = timing_faults(samples(1.0), warmup(None), None, QUIET.model_copy(update={named: 0.2}))
    assert "20" in reason
    assert not list(timing_faults(samples(1.0), warmup(None), None, QUIET.model_copy(update={named: None})))


def test_the_last_reading_of_a_segment_counts_and_a_torn_one_is_dropped(tmp_path: Path) -> None:
    machine = CountedMachine(tmp_path / "machine")
    before = ConditionsLog(tmp_path, 0, (SERVICE,), machine.counters)
    machine.pass_time(60, other=0.5)
    before.write()
    machine.pass_time(60, other=0.25)
    before.write()
    file = tmp_path / "conditions.jsonl"
    file.write_text(file.read_text() + '{"segment":0,"condi')  # killed while it wrote
    after = ConditionsLog(tmp_path, 1, (SERVICE,), machine.counters)
    machine.pass_time(60, other=0.125)
    after.write()
    first, second = conditions_of(tmp_path, 0), conditions_of(tmp_path, 1)
    assert first is not None
    assert first.foreign == pytest.approx(0.375, abs=1e-3)
    assert second is not None
    assert second.foreign == pytest.approx(0.125, abs=1e-3)
    assert conditions_of(tmp_path, 2) is None
