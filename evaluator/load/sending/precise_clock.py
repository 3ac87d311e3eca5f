"""Wakes a task at a time with microseconds of delay. Event loops round their timers to milliseconds."""

import asyncio
import ctypes
import os
import time
from types import TracebackType
from typing import Self

CLOCK_MONOTONIC = 1  # the clock of time.monotonic
TFD_TIMER_ABSTIME = 1


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class PreciseClock:
    """Counts seconds since a moment of the monotonic clock, which all processes of a machine share.

    Owns a timer of the kernel (timerfd_create(2), Linux). One task at a time may wait.
    """

    def __init__(self, start_s: float) -> None:
        self._start_s = start_s
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._timer: int = self._libc.timerfd_create(CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._timer < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._timer, self._fired)
        self._waiter: asyncio.Future[None] | None = None

    def now(self) -> float:
        """Returns the present time."""
        return time.monotonic() - self._start_s

    async def until(self, at_s: float) -> None:
        """Returns at that time or right after it. Lets other tasks run in any case."""
        if at_s <= self.now():
            await asyncio.sleep(0)
            return
        nanoseconds = int((self._start_s + at_s) * 1e9)
        spec = _Itimerspec(_Timespec(0, 0), _Timespec(*divmod(nanoseconds, 1_000_000_000)))
        self._waiter = self._loop.create_future()
        if self._libc.timerfd_settime(self._timer, TFD_TIMER_ABSTIME, ctypes.byref(spec), None) < 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")
        await self._waiter

    def _fired(self) -> None:
        try:
            os.read(self._timer, 8)
        except BlockingIOError:  # the loop saw it twice
            return
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.remove_reader(self._timer)
        os.close(self._timer)
