"""Holds back whoever reads a file, so that work which reads it goes on for as long as a test needs."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def held_back(path: Path) -> Iterator[None]:
    """Makes readers of a small file wait in `open` until the block ends; they then read it as it was."""
    content, kept = path.read_bytes(), path.with_name(f".{path.name}.kept")
    path.rename(kept)
    os.mkfifo(path)
    try:
        yield
    finally:
        pipe = os.open(path, os.O_RDWR)  # does not wait for a reader, there may be none
        kept.replace(path)
        os.write(pipe, content)  # fits into the buffer of a pipe, 64 KiB
        os.close(pipe)
