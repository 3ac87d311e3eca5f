"""Parity on the embedded engine."""

from pathlib import Path

import pytest
from fastapi import FastAPI

from services.lexical.app import build_app
from services.lexical.settings import LexicalSettings
from tests.contract.parity_faults import ParitySuite


class TestParityOnEdge(ParitySuite):
    @pytest.fixture
    def lexical(self, tmp_path: Path) -> FastAPI:
        return build_app(LexicalSettings(directory=tmp_path / "lexical"))
