"""Makes directories for embedded engines, in memory: they fsync after every change, which is slow on a shared disk."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MEMORY = Path("/dev/shm")
_ENOUGH = 1 << 30


@contextmanager
def scratch() -> Iterator[Path]:
    """Yields a directory in memory where there is room (84 tests: 10 s instead of 133 s), else a temporary one."""
    roomy = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ENOUGH
    with tempfile.TemporaryDirectory(prefix="stack-test-", dir=_MEMORY if roomy else None) as directory:
        yield Path(directory)
