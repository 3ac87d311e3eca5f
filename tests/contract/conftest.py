"""What the tests of both Edge engines share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.edge_subjects import SUBJECTS
from tests.support.scratch import scratch


@pytest.fixture(params=SUBJECTS)
def kind(request: pytest.FixtureRequest) -> str:
    """Which of the engines."""
    return str(request.param)


@pytest.fixture
def directory() -> Iterator[Path]:
    """Where one keeps its generations."""
    with scratch() as directory:
        yield directory / "edge"
