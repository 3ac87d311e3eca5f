"""Reads settings of another environment than that of this process: pydantic reads them from os.environ alone."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


@contextmanager
def replaced_environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """Replaces os.environ within the block."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(wanted)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
