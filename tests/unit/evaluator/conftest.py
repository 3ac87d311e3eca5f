"""What tests of the evaluator share."""

from pathlib import Path

import pytest

from tests.support.gateway_stub import write_shop


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The small collection of the stub."""
    return write_shop(tmp_path / "shop")
