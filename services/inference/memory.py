"""Gives memory back to the system once a model has had nothing to do for a while.

Batches differ tenfold in size, and glibc keeps what it has freed between them: after 64 texts of 512 tokens a process
held half as much again as before. Trimming takes tens of milliseconds, so it waits until nobody does.
"""

import asyncio
import ctypes
from collections.abc import Callable

IDLE_S = 1.0


def trim() -> None:
    """Hands the free pages of the allocator back; does nothing where the C library cannot (musl, macOS)."""
    release = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if release is not None:
        release(0)  # without the interpreter's lock, as every call through ctypes.CDLL


class WhenIdle:
    """`with idle: ...` around all work; `act` is called, on a thread of the loop's executor, `idle_s` after it."""

    def __init__(self, act: Callable[[], None] = trim, idle_s: float = IDLE_S) -> None:
        self._act = act
        self._idle_s = idle_s
        self._timer: asyncio.TimerHandle | None = None
        self._running = 0

    def __enter__(self) -> None:
        """Work begins."""
        self._running += 1
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def __exit__(self, *_: object) -> None:
        """Work ends; when it was the last, the wait begins."""
        self._running -= 1
        if not self._running:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._idle_s, loop.run_in_executor, None, self._act)

    def close(self) -> None:
        """Nothing is called any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
