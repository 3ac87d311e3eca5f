"""The part of a run's page that changes while it runs."""

from evaluator.progress import step_progress
from evaluator.service.jobs import JobState
from evaluator.service.page_answers import PageAnswers
from evaluator.service.served_files import MessagePaths


def progress_of(state: JobState) -> str:
    return bytes(PageAnswers(MessagePaths([])).page("progress.html", state=state).body).decode()


def test_a_part_of_no_units_has_no_bar() -> None:
    def of(total: int) -> str:
        progress = step_progress("Ranking", 0, total, "queries", 0, 0.0)
        return progress_of(JobState(id="x", state="running", step="rank", progress=progress))

    assert '<progress aria-labelledby="part" max="8" value="0">' in of(8)
    assert "0 of 0 queries" in of(0)
    assert "<progress" not in of(0)


def test_the_command_that_goes_on_is_code() -> None:
    state = JobState(id="x", state="interrupted", step="rank", detail="stopped; `rank --run <x>` goes on")
    assert "stopped; <code>rank --run &lt;x&gt;</code> goes on" in progress_of(state)
