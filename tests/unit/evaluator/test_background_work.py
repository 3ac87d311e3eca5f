"""Work that a page must not wait for goes on beside it, one piece after the other."""

import asyncio
import threading

import pytest

from evaluator.background_work import MOST_WAITING, BackgroundWork
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
    with pytest.raises(Unavailable, match="in a moment"):
        work.start(MOST_WAITING, lambda: True)
    may_end.set()
    assert await asyncio.gather(*map(work.result, range(MOST_WAITING))) == [True] * MOST_WAITING
