"""Background tasks that die are counted, logged and restarted; those that return are not."""

import asyncio
import logging

import pytest

from services.chassis.background_tasks import Supervisor
from services.chassis.instruments import Instruments


class Work:
    """Fails `failures` times, then waits until it is released."""

    def __init__(self, failures: int, error: BaseException) -> None:
        self.failures = failures
        self.error = error
        self.runs = 0
        self.at_work = asyncio.Event()
        self.enough = asyncio.Event()

    async def __call__(self) -> None:
        self.runs += 1
        if self.runs <= self.failures:
            raise self.error
        self.at_work.set()
        await self.enough.wait()


def deaths(instruments: Instruments) -> float | None:
    return instruments.registry.get_sample_value("background_task_deaths_total", {"task": "look"})


# A CancelledError can escape from work that nobody has cancelled: from a task group or a future of its own.
@pytest.mark.parametrize("error", [UnicodeDecodeError("utf-8", b"\xfc", 0, 1, "bad"), asyncio.CancelledError()])
async def test_a_task_that_dies_is_counted_logged_and_started_again(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    instruments, work = Instruments(), Work(2, error)
    with caplog.at_level(logging.ERROR):
        async with Supervisor(instruments, pause_s=0.01) as supervisor:
            supervisor.start("look", work)
            async with asyncio.timeout(5.0):
                await work.at_work.wait()
    assert deaths(instruments) == 2
    # Servers of other tests may still write their logs.
    died = [record for record in caplog.records if record.name == "services.chassis.background_tasks"]
    assert [record.message for record in died] == ["background task died"] * 2
    assert died[0].exc_info is not None


async def test_a_task_that_ends_is_not_started_again() -> None:
    instruments, work = Instruments(), Work(0, RuntimeError())
    async with Supervisor(instruments, pause_s=0.01) as supervisor:
        task = supervisor.start("look", work)
        work.enough.set()
        await task
        await asyncio.sleep(0.05)
    assert work.runs == 1
    assert deaths(instruments) is None


@pytest.mark.parametrize("failures", [0, 1_000])
async def test_closing_cancels_a_running_task_and_a_pausing_one(failures: int) -> None:
    work = Work(failures, RuntimeError())
    async with Supervisor(Instruments(), pause_s=3_600.0) as supervisor:
        task = supervisor.start("look", work)
        await asyncio.sleep(0.01)
    assert task.cancelled()
    assert work.runs == 1
