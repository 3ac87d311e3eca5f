"""Repeats a test that missed a time: a disturbed moment of the machine passes, and what a defect takes stays."""

import functools
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec

import pytest

from evaluator.machine.machine_conditions import TAKEN_LIMIT, ConditionsMeter, condition_words

TRIES = 3

P = ParamSpec("P")


class MissedTimeError(AssertionError):
    """A time, or what hangs on one, missed its bar."""


class UndecidedError(MissedTimeError):
    """The machine was seen to be too busy for a judgment."""


@contextmanager
def timed() -> Iterator[None]:
    """Marks what is asserted in the block as a time. Everything else that a test asserts must hold at once."""
    try:
        yield
    except AssertionError as missed:
        raise MissedTimeError(str(missed)) from missed


def repeated_when_late(test: Callable[P, Awaitable[None]]) -> Callable[P, Awaitable[None]]:
    """Runs a test again that missed a time, TRIES times in all; the last miss fails it, earlier ones are warnings.

    The last miss skips it where the machine cannot tell: after an UndecidedError, or when other processes, a hypervisor
    or a CPU limit took more of it meanwhile than a load report allows (evaluator/machine/machine_conditions.py).
    The test must begin anew with what its fixtures hold after a miss.
    """

    @functools.wraps(test)
    async def tried(*args: P.args, **kwargs: P.kwargs) -> None:
        for number in range(1, TRIES + 1):
            meter = ConditionsMeter(())
            try:
                await test(*args, **kwargs)
            except MissedTimeError as missed:
                meter.end_window()
                found = meter.conditions()
                busy = condition_words(found) if found.taken > TAKEN_LIMIT or found.throttled else ""
                said = f"try {number} of {TRIES} missed a time: {missed} ({busy or 'a quiet machine'})"
                if number < TRIES:
                    warnings.warn(said, stacklevel=1)
                elif busy or isinstance(missed, UndecidedError):
                    pytest.skip(f"this machine cannot tell: {said}")
                else:
                    raise
            else:
                return

    return tried
