"""Tells whether a file was replaced or changed since it was read."""

from pathlib import Path

# Its device and inode, its time of change in ns, its size in bytes.
FileSignature = tuple[int, int, int, int]


def file_signature(file: Path) -> FileSignature | None:
    """Returns what differs once a file was replaced or changed; None where there is none, or none to be seen."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
