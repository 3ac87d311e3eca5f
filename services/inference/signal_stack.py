"""Restores a thread's alternate signal stack after a library changed it. Owns the call of sigaltstack(2)."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager


class SignalStack(ctypes.Structure):
    """Mirrors `stack_t` of sigaltstack(2), on Linux."""

    _fields_ = (("base", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


@contextmanager
def preserving_signal_stack() -> Iterator[None]:
    """Restores the calling thread's alternate signal stack when the block ends.

    On a CPU with AMX, OpenVINO 2026.4 sets an alternate stack in the thread that opens a model, and restores the former
    one when the model is freed. If the first of two models is freed first, its stack is unmapped, and the second one
    then restores that unmapped stack: the next signal that Python handles is a segmentation fault.
    """
    c = ctypes.CDLL(None)
    before = SignalStack()
    c.sigaltstack(None, ctypes.byref(before))
    try:
        yield
    finally:
        # The kernel refuses this if `before` is smaller than the library requested; then the library's stack stays.
        c.sigaltstack(ctypes.byref(before), None)
