"""Only what is marked as a time is tried again."""

import math
from collections.abc import Callable

import pytest

from tests.support.times import TRIES, UndecidedError, repeated_when_late, timed

pytestmark = pytest.mark.filterwarnings("ignore:try .* missed a time")


async def tries_of(
    attempt: Callable[[int], None], ended: type[BaseException] | None = None, said: str | None = None
) -> int:
    """Returns how often a test was tried, that ended so."""
    tries: list[int] = []

    @repeated_when_late
    async def test() -> None:
        tries.append(1)
        attempt(len(tries))

    if ended is None:
        await test()
    else:
        with pytest.raises(ended, match=said):
            await test()
    return len(tries)


def late(number: int, kept: int = TRIES) -> None:
    with timed():
        assert number == kept, "late"


def unmarked(number: int) -> None:
    assert number == TRIES


def undecided(number: int) -> None:
    raise UndecidedError("too busy")


async def test_a_time_that_was_missed_twice_may_be_kept_at_the_third_try() -> None:
    assert await tries_of(late) == TRIES


async def test_what_is_no_time_must_hold_at_once() -> None:
    assert await tries_of(unmarked, AssertionError) == 1


async def test_a_machine_that_cannot_tell_skips_after_the_last_try() -> None:
    assert await tries_of(undecided, pytest.skip.Exception, r"try 3 of 3.*too busy") == TRIES


async def test_a_time_that_is_missed_at_every_try_fails_on_a_quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.times.TAKEN_LIMIT", math.inf)
    assert await tries_of(lambda number: late(number, 0), AssertionError, "late") == TRIES
