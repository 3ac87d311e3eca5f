"""What holds for every test."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def no_full_collection_in_the_middle() -> Iterator[None]:
    """Python's garbage collector works between the tests, not in them.

    This one process holds what all tests have loaded: a full collection was measured at up to a second, and tests of
    deadlines allow a third of that. A service freezes what its start has made (DECISIONS 45).
    """
    gc.disable()
    yield
    gc.enable()
