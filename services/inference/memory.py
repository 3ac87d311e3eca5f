"""Keeps what a batch frees for the next one, and gives it back once a model has had nothing to do for a while.

Batches differ tenfold in size: after 64 texts of 512 tokens a process held half as much again as before. Trimming takes
tens of milliseconds, so it waits until nobody does.
"""

import asyncio
import ctypes
from collections.abc import Callable

IDLE_S = 1.0

# Options of mallopt(3), from glibc's malloc.h. Above 32 MiB glibc refuses the second: weights are larger, no value of a
# batch is.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT = {_TRIM_THRESHOLD: 1 << 30, _MMAP_THRESHOLD: 32 << 20}


def keep() -> None:
    """What is freed stays with the process until `trim`; does nothing where the C library cannot (musl, macOS).

    By itself glibc hands large values back at once and asks for them again in the next batch, or not, by what it has
    seen freed before: an fp32 file of ours met 2,700 to 7,000 page faults a batch of 492 tokens, a tenth of its time.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        for option, size in _KEPT.items():
            set_option(option, size)


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
