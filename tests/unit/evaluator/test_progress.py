"""Who listens learns how far a step is."""

import pytest

from evaluator.progress import StepProgress, following, progress, step_progress


def test_a_listener_is_told_of_the_beginning_and_of_every_advance() -> None:
    told: list[StepProgress] = []
    with following(told.append), progress("Ranking", 4, "queries") as advance:
        advance(1)
        advance(2, 1)
    assert [(progress.part, progress.done, progress.total, progress.unit, progress.lost) for progress in told] == [
        ("Ranking", 0, 4, "queries", 0),
        ("Ranking", 1, 4, "queries", 0),
        ("Ranking", 3, 4, "queries", 1),
    ]


@pytest.mark.parametrize(("done", "left"), [(0, None), (10, 45.0), (55, 0.0)])
def test_the_time_left_is_that_of_the_pace_so_far(done: int, left: float | None) -> None:
    assert step_progress("Ranking", done, 55, "queries", 0, 10.0).seconds_left == left


def test_lost_queries_stand_in_the_plain_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluator.progress.PLAIN_EVERY_S", 0.0)
    with progress("Ranking", 3, "queries") as advance:
        advance(1, 1)
    assert "Ranking: 1 of 3 queries, 1 lost" in capsys.readouterr().err
