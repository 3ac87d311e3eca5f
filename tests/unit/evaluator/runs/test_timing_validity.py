"""Whether the times of a run hold: each reason alone, and none."""

from pathlib import Path

import pytest

from evaluator.machine.machine_conditions import MachineConditions
from evaluator.runs.answers import AnswerOutcome
from evaluator.runs.latency import summarise
from evaluator.runs.timing_validity import conditions_of, timing_faults, write_conditions

QUIET = MachineConditions(seconds=60, cores=2, foreign=0.09, steal=0.009, throttled=0.009)


def samples(drift: float, n: int = 200) -> dict[str, list[float]]:
    """Times of a pipeline whose later half takes `drift` times as long as the earlier one."""
    half = [10 + at % 10 for at in range(n // 2)]
    return {"bm25": [*half, *(drift * ms for ms in half)]}


def warmup(error: str | None) -> dict[str, list[AnswerOutcome]]:
    return {"bm25": [AnswerOutcome(query="q", phase="warmup", error=error, latency_ms=None if error else 1)]}


@pytest.mark.parametrize("drift", [0.91, 1.0, 1.09])
def test_times_hold_on_a_quiet_machine_after_an_answered_warmup(drift: float) -> None:
    assert not list(timing_faults(samples(drift), warmup(None), QUIET))


@pytest.mark.parametrize(
    ("drift", "words"), [(0.89, "11% less time than"), (1.11, "11% longer than"), (3.0, "200% longer than")]
)
def test_a_drift_beyond_a_tenth_in_either_direction_is_a_reason(drift: float, words: str) -> None:
    (reason,) = timing_faults(samples(drift), warmup(None), QUIET)
    assert reason == f"bm25: the later half took {words} the earlier one (drift, limit 10%)"


def test_a_drift_that_chance_explains_is_none() -> None:
    slow_at_the_end = {"bm25": [5.0, 6.0, 5.0, 7.0, 6.0, 9.0]}
    assert summarise(slow_at_the_end["bm25"]).drift == 1.4
    assert not list(timing_faults(slow_at_the_end, warmup(None), QUIET))


def test_a_warmup_of_which_nothing_was_answered_is_a_reason() -> None:
    (reason,) = timing_faults(samples(1.0), warmup("timeout"), QUIET)
    assert "none of 1 warm-up queries was answered" in reason


@pytest.mark.parametrize("named", ["foreign", "steal", "throttled"])
def test_each_counter_beyond_its_limit_is_a_reason_and_without_the_counter_there_is_none(named: str) -> None:
    (reason,) = timing_faults(samples(1.0), warmup(None), QUIET.model_copy(update={named: 0.2}))
    assert "20" in reason
    assert not list(timing_faults(samples(1.0), warmup(None), QUIET.model_copy(update={named: None})))


def test_the_last_line_of_the_conditions_counts_also_of_an_earlier_release(tmp_path: Path) -> None:
    assert conditions_of(tmp_path) is None
    write_conditions(tmp_path, QUIET)
    assert conditions_of(tmp_path) == QUIET
    file = tmp_path / "conditions.jsonl"
    busy = QUIET.model_copy(update={"foreign": 0.5})
    file.write_text(file.read_text() + f'{{"segment":0,"conditions":{busy.model_dump_json()}}}\n')
    assert conditions_of(tmp_path) == busy


def test_times_of_a_ranking_that_an_earlier_release_continued_are_doubted() -> None:
    continued = [
        AnswerOutcome.from_record(f'{{"query":"q","phase":"measured","segment":{at},"latency_ms":1}}') for at in (0, 1)
    ]
    (reason,) = timing_faults(samples(1.0), {"bm25": continued}, QUIET)
    assert "`rank`" in reason
