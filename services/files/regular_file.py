"""Opens regular files alone, because reading a pipe or a device may never end. Detects changes of files.

Opens every file that a process reads after its start or that a request names, and every lock file.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader, FileIO
from pathlib import Path

# Far above any settings, keys, certificates and reports; what is larger is read piece by piece, by `open_regular`.
MOST_BYTES = 1_000_000_000
# Its device and inode, its time of change in ns, its size in bytes.
FileSignature = tuple[int, int, int, int]
_KINDS = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}


def open_regular(path: Path, most: int | None = None) -> BufferedReader:
    """Opens a regular file, links followed. Raises OSError, which names the path, for everything else.

    `most`: raises it, too, for a file of more bytes.
    """
    expect_regular(path)  # before opening it, which can already act on a device
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        status = os.fstat(opened)
        expect_regular(path, status)
        if most is not None and status.st_size > most:
            raise OSError(errno.EFBIG, f"more than {most:,} bytes", str(path))
    except OSError:
        os.close(opened)
        raise
    return os.fdopen(opened, "rb")


def read_regular(path: Path, most: int = MOST_BYTES) -> bytes:
    """Returns the content of a regular file. Raises OSError as `open_regular`, and for more than `most` bytes."""
    with open_regular(path, most) as file:
        return file.read(most)


def open_lock(path: Path) -> FileIO:
    """Opens a regular file for a lock without changing its content, and makes it if there is none. Raises OSError."""
    with suppress(FileNotFoundError):
        expect_regular(path)
    opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY, 0o666)
    return os.fdopen(opened, "r+b", buffering=0)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds an exclusive lock on `open_lock`'s file; the kernel releases it when the process ends, even by a crash."""
    with open_lock(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def expect_regular(path: Path, status: os.stat_result | None = None) -> None:
    """Raises OSError, which names the path, for anything but a regular file. `status`: of the open file, if it is."""
    status = status or path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "a device")
        raise OSError(errno.EINVAL, f"{kind}, no file", str(path))


def file_signature(file: Path) -> FileSignature | None:
    """Returns a value that changes when the file is replaced or changed; None if it is missing or inaccessible."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size
