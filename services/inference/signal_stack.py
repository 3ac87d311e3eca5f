"""Puts a thread's alternate signal stack back as it was before a library changed it."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager


class SignalStack(ctypes.Structure):
    """`stack_t` of sigaltstack(2), on Linux."""

    _fields_ = (("base", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


@contextmanager
def kept_signal_stack() -> Iterator[None]:
    """Restores the calling thread's alternate signal stack at the end.

    OpenVINO 2026.4 gives the thread that opens a model a stack of its own where the CPU has AMX, and hands the one
    before back when the model goes. Of two models, the one opened first may go first: the other one then hands back a
    stack that is unmapped by now, and the next signal that Python handles is a segmentation fault.
    """
    c = ctypes.CDLL(None)
    before = SignalStack()
    c.sigaltstack(None, ctypes.byref(before))
    try:
        yield
    finally:
        # Refused by the kernel where `before` is too small for what the library has asked for: then its own stays.
        c.sigaltstack(ctypes.byref(before), None)
