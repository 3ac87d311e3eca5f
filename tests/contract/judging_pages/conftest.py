"""A run with pipelines to judge, made once a file and copied for each test, and a client of the service over it."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.support.evaluator_service import evaluator
from tests.support.gateway_stub import GatewayStub
from tests.support.judging_pages import write_judged_run


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_judged_run(tmp_path_factory.mktemp("judged"))


@pytest.fixture
def runs(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "runs"))


@pytest.fixture
def run(runs: Path) -> str:
    return next(runs.glob("2*")).name


@pytest.fixture
async def client(runs: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with evaluator(GatewayStub(), runs) as client:
        yield client
