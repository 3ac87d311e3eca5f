"""Parity over a gateway with faults: a short one costs time, a lasting one the comparison, never a figure."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from evaluator.client.client import GatewayClient, connected
from evaluator.datasets.reader import Dataset, read_dataset
from evaluator.errors import EvaluationError
from evaluator.parity.answers import ServedCollection, ask_every_query, load, served_settings
from evaluator.parity.comparison import parity_experiment
from services.chassis.errors import BadInput, Unavailable
from tests.support.backends import FaultyTransport
from tests.support.gateway_stub import GatewayStub, write_shop


@pytest.fixture
async def transport(stub: GatewayStub) -> AsyncIterator[FaultyTransport]:
    app = stub.app
    async with app.router.lifespan_context(app):
        yield FaultyTransport(app)


@pytest.fixture
async def client(transport: FaultyTransport) -> AsyncIterator[GatewayClient]:
    async with connected("http://gateway", transport) as client:
        yield client


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return read_dataset(write_shop(tmp_path / "shop"))


@pytest.fixture
async def shop(client: GatewayClient, dataset: Dataset) -> ServedCollection:
    return await load(client, parity_experiment(dataset.directory), dataset)


async def no_sleep(_: float) -> None:
    return None


async def test_a_query_that_finds_the_gateway_busy_is_asked_again(
    client: GatewayClient, transport: FaultyTransport, shop: ServedCollection, dataset: Dataset
) -> None:
    transport.fault, transport.faults_left = "status-503", 3
    answers = await ask_every_query(client, shop, "beir", dataset, list(dataset.judgments), no_sleep)
    assert transport.faults_left == 0
    assert list(answers) == list(dataset.judgments)
    assert all(answers.values())


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Unavailable("gone"), "gone.*parity"),
        (BadInput("preset: no"), "preset: no"),
    ],
)
async def test_a_query_without_an_answer_ends_the_comparison(
    client: GatewayClient,
    stub: GatewayStub,
    shop: ServedCollection,
    dataset: Dataset,
    fault: Unavailable | BadInput,
    said: str,
) -> None:
    stub.failing_queries = {"red bell": fault}
    with pytest.raises(EvaluationError, match=said):
        await ask_every_query(client, shop, "beir", dataset, list(dataset.judgments), no_sleep)


async def test_a_generation_that_hides_its_parameters_cannot_be_compared(shop: ServedCollection) -> None:
    with pytest.raises(EvaluationError, match="beir"):
        served_settings(shop.state, "beir")
