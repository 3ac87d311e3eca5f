"""Work in a thread: whoever cancels it learns when it has ended."""

import asyncio
import re
import threading
from pathlib import Path

import pytest

import evaluator
from evaluator.progress import in_thread

# No steps of a run: a check before it begins, and a process that is killed. Routes only read.
NO_STEPS = {"jobs.py"}


async def test_what_a_thread_returns_or_raises_is_the_callers() -> None:
    assert await in_thread(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await in_thread(divmod, 7, 0)


@pytest.mark.parametrize("cancellations", [1, 3])
async def test_a_cancelled_caller_ends_when_its_thread_has_ended(cancellations: int) -> None:
    began, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        may_end.wait(10)
        ended.set()

    task = asyncio.create_task(in_thread(work))
    await asyncio.to_thread(began.wait, 10)
    for _ in range(cancellations):
        task.cancel()
        await asyncio.sleep(0.005)
    assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


def test_no_step_computes_in_a_thread_that_a_cancellation_would_leave_behind() -> None:
    sources = Path(evaluator.__file__).parent.rglob("*.py")
    files = {path.name for path in sources if re.search(r"to_thread|run_in_executor", path.read_text("utf-8"))}
    assert {name for name in files if not name.endswith("routes.py")} == NO_STEPS | {"progress.py"}
