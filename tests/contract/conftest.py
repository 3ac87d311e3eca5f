"""What several files of tests share: gateways, and the two engines of Edge."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evaluator.__main__ import app
from evaluator.experiments.experiment import Experiment
from tests.support.backends import Stack, opened_stack
from tests.support.edge_subjects import SUBJECTS
from tests.support.gateway_stub import GatewayStub
from tests.support.real_stack import RealStack, real_stack
from tests.support.scratch import scratch
from tests.support.served import served
from tests.support.small_runs import Evaluator, planned

IN_ALL = [kind if kind == "texts" else pytest.param(kind, marks=pytest.mark.integration) for kind in SUBJECTS]


@pytest.fixture(params=IN_ALL)
def kind(request: pytest.FixtureRequest) -> str:
    """Which of the engines. They share the directory, so `make test` runs its promises on one of them."""
    return str(request.param)


@pytest.fixture
def directory() -> Iterator[Path]:
    """Where one keeps its generations."""
    with scratch() as directory:
        yield directory / "edge"


@pytest.fixture
async def stack() -> AsyncIterator[Stack]:
    """A gateway over services in memory."""
    async with opened_stack() as stack:
        yield stack


@pytest.fixture
async def loaded(tmp_path: Path) -> AsyncIterator[RealStack]:
    """Real services and a gateway, with a few documents."""
    async with real_stack(tmp_path) as stack:
        await stack.load()
        yield stack


@pytest.fixture
def stub() -> GatewayStub:
    """A gateway with faults on request, for the evaluator."""
    return GatewayStub()


@pytest.fixture
def gateway(stub: GatewayStub) -> Iterator[str]:
    """Its address."""
    with served(stub.app) as url:
        yield url


@pytest.fixture
def evaluator(tmp_path: Path) -> Evaluator:
    """The command line, with its runs in `tmp_path / "runs"`."""
    return lambda *words: CliRunner().invoke(app, [*map(str, words)], env={"EVALUATOR_RUNS": str(tmp_path / "runs")})


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return planned(tmp_path)
