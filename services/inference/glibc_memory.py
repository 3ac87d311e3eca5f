"""Keeps what a batch frees for the next one, and gives it back once nobody has asked for a while.

Batches differ tenfold in size: after 64 texts of 512 tokens a process held half as much again as before. glibc's ways
of giving back are two: `malloc_trim` gives back what is free within an arena, but the end of an arena goes only when
its own thread frees something, and then only above the threshold (glibc 2.36, malloc.c: mtrim, heap_trim).
"""

import ctypes
import threading

# Options of mallopt(3), from glibc's malloc.h. Above 32 MiB glibc refuses the second: weights are larger, no value of a
# batch is.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT = {_TRIM_THRESHOLD: 1 << 30, _MMAP_THRESHOLD: 32 << 20}
# Freeing less than 64 KiB does not make glibc look at the end of the arena.
_LOOKED_AT = 1 << 17
# The threshold is the process's, and its threads come to rest together.
_trimming = threading.Lock()


def keep() -> None:
    """What is freed stays with the process until `trim`; does nothing where the C library cannot (musl, macOS).

    It is a setting of the whole process, so composition roots call it, and nothing that is opened in one.
    By itself glibc hands large values back at once and asks for them again in the next batch, or not, by what it has
    seen freed before: an fp32 file of ours met 2,700 to 7,000 page faults a batch of 492 tokens, a tenth of its time.
    """
    c = ctypes.CDLL(None)
    if hasattr(c, "malloc_trim"):
        for option, size in _KEPT.items():
            c.mallopt(option, size)


def trim() -> None:
    """Hands back what is free in all arenas, and the end of the calling thread's own.

    Does nothing where the C library cannot (musl, macOS).
    """
    c = ctypes.CDLL(None)  # gives the interpreter's lock away, call by call
    if hasattr(c, "malloc_trim"):
        c.malloc.restype, c.malloc.argtypes, c.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
        with _trimming:
            c.mallopt(_TRIM_THRESHOLD, 0)
            c.free(c.malloc(_LOOKED_AT))
            c.mallopt(_TRIM_THRESHOLD, _KEPT[_TRIM_THRESHOLD])
        c.malloc_trim(0)
