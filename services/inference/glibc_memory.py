"""Sets options of the whole process for running models: how glibc keeps and returns freed memory.

Batches differ tenfold in size: after 64 texts of 512 tokens a process held half as much again as before. glibc returns
memory in two ways: `malloc_trim` returns free pages inside an arena, but the end of an arena is returned only when its
own thread frees something, and only above the threshold (glibc 2.36, malloc.c: mtrim, heap_trim).
"""

import ctypes
import os
import threading

# Options of mallopt(3), from malloc.h. 32 MiB is glibc's highest mmap threshold: above any value of a batch.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEEP_OPTIONS = {_TRIM_THRESHOLD: 1 << 30, _MMAP_THRESHOLD: 32 << 20}
# Freeing less than 64 KiB does not make glibc look at the end of the arena.
_PROBE_BYTES = 1 << 17
# The thresholds belong to the process, and several threads become idle at the same time.
_trimming = threading.Lock()
_keeping = threading.Event()


def keep_freed_memory() -> None:
    """Makes the process keep freed memory until `trim_memory`; does nothing without glibc (musl, macOS).

    Sets an option of the whole process, so only composition roots call it, and nothing that they open does.
    By default glibc decides by earlier frees whether it returns a large value at once. If it does, the next batch maps
    the pages again: 2,700 to 7,000 page faults per batch of 492 tokens, a tenth of its time, with one fp32 model.
    """
    c = ctypes.CDLL(None)
    if hasattr(c, "malloc_trim"):
        for option, size in _KEEP_OPTIONS.items():
            c.mallopt(option, size)
        _keeping.set()


def trim_memory() -> None:
    """Returns free memory of all arenas, and the end of the calling thread's own arena, to the operating system.

    The end of an arena only after `keep_freed_memory`. Does nothing without glibc (musl, macOS).
    """
    c = ctypes.CDLL(None)  # CDLL releases the GIL during each call
    if not hasattr(c, "malloc_trim"):
        return
    if _keeping.is_set():
        c.malloc.restype, c.malloc.argtypes, c.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
        with _trimming:
            c.mallopt(_TRIM_THRESHOLD, 0)
            c.free(c.malloc(_PROBE_BYTES))
            c.mallopt(_TRIM_THRESHOLD, _KEEP_OPTIONS[_TRIM_THRESHOLD])
    c.malloc_trim(0)


def set_process_options() -> None:
    """Keeps freed memory in the process, and the tokenizers library on the calling thread."""
    keep_freed_memory()
    # Worker threads already use all cores; the library's own pool would compete with them.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
