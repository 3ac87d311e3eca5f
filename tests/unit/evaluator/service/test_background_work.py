"""Work that a page must not wait for goes on beside it, one piece after the other."""

import asyncio
import threading
from pathlib import Path

import pytest

from evaluator.runs.measurement_lock import MeasurementRunning, measuring
from evaluator.service.background_work import MOST_WAITING, BackgroundWork, ComputingLock, MeasurementUnderWay
from services.chassis.errors import Unavailable


async def test_a_result_that_takes_long_is_not_there_at_first() -> None:
    work, may_end = BackgroundWork[str, int](), threading.Event()
    work.start("slow", lambda: 7 if may_end.wait(60) else 0)
    work.start("slow", lambda: 8)  # the first goes on alone
    assert await work.result("slow") is None
    may_end.set()
    assert await work.result("slow") == 7
    work.start("slow", lambda: 9)
    assert await work.result("slow") == 9


async def test_an_error_is_raised_once_and_the_work_can_be_started_again() -> None:
    work = BackgroundWork[str, float]()
    work.start("key", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        await work.result("key")
    assert not work.holds("key")


async def test_more_work_than_may_wait_is_refused() -> None:
    work, may_end = BackgroundWork[int, bool](), threading.Event()
    for number in range(MOST_WAITING):
        work.start(number, lambda: may_end.wait(60))
    with pytest.raises(Unavailable):
        work.start(MOST_WAITING, lambda: True)
    may_end.set()
    assert await asyncio.gather(*map(work.result, range(MOST_WAITING))) == [True] * MOST_WAITING


async def test_no_measurement_begins_while_work_goes_on_that_would_disturb_it(tmp_path: Path) -> None:
    lock, may_end = ComputingLock(tmp_path), threading.Event()
    verdicts, quality = BackgroundWork[int, bool](lock, "a verdict"), BackgroundWork[int, bool](lock, "a quality")
    verdicts.start(1, lambda: may_end.wait(60))
    quality.start(1, lambda: True)
    await quality.whole(1)
    with pytest.raises(MeasurementRunning), measuring(tmp_path):
        pass
    may_end.set()
    await verdicts.whole(1)
    with measuring(tmp_path) as measurement:
        measurement.name("20260101T000000000Z-first")
        with pytest.raises(MeasurementUnderWay, match="20260101T000000000Z-first"):
            verdicts.start(2, lambda: True)
    assert not verdicts.holds(2)


async def test_an_error_reaches_everyone_who_waits_for_the_work() -> None:
    work, may_end = BackgroundWork[str, float](), threading.Event()
    work.start("key", lambda: 1 / 0 if may_end.wait(60) else 0)
    waiting = [asyncio.create_task(work.whole("key")) for _ in range(2)]
    await asyncio.sleep(0)
    may_end.set()
    errors = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(error) for error in errors] == [ZeroDivisionError] * 2
