"""Only what is marked as a time is tried again."""

import math

import pytest

from tests.support.times import TRIES, UndecidedError, repeated_when_late, timed


@pytest.mark.filterwarnings("ignore:try .* missed a time")
async def test_a_time_that_was_missed_twice_may_be_kept_at_the_third_try() -> None:
    tries: list[int] = []

    @repeated_when_late
    async def test() -> None:
        tries.append(1)
        with timed():
            assert len(tries) == TRIES

    await test()
    assert len(tries) == TRIES


async def test_what_is_no_time_must_hold_at_once() -> None:
    tries: list[int] = []

    @repeated_when_late
    async def test() -> None:
        tries.append(1)
        assert len(tries) == TRIES

    with pytest.raises(AssertionError):
        await test()
    assert len(tries) == 1


@pytest.mark.filterwarnings("ignore:try .* missed a time")
async def test_a_machine_that_cannot_tell_skips_after_the_last_try() -> None:
    tries: list[int] = []

    @repeated_when_late
    async def test() -> None:
        tries.append(1)
        raise UndecidedError("too busy")

    with pytest.raises(pytest.skip.Exception, match=r"try 3 of 3.*too busy"):
        await test()
    assert len(tries) == TRIES


@pytest.mark.filterwarnings("ignore:try .* missed a time")
async def test_a_time_that_is_missed_at_every_try_fails_on_a_quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.times.TAKEN_LIMIT", math.inf)

    @repeated_when_late
    async def test() -> None:
        with timed():
            raise AssertionError("late")

    with pytest.raises(AssertionError, match="late"):
        await test()
