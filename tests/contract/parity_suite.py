"""Suite of parity: figures are equal to those of another BM25, and a fault of a preset is named."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from fastapi import FastAPI

from evaluator.client.client import GatewayClient, connected
from evaluator.parity.comparison import ParityReport, compare_with_published, parity_experiment, verdict
from evaluator.parity.published import given_figure
from gateway.app import build_app as build_gateway
from gateway.settings import BackendAddress, GatewaySettings
from services.contracts.collections import LexicalPreset
from services.lexical.presets import BUILT_IN
from tests.support.backends import FaultyTransport
from tests.support.parity_collection import ParityCollection, generated_collection
from tests.support.wires import FixedEndpoints


class ParitySuite:
    """Subclasses have a fixture `lexical`, the lexical service."""

    @pytest.fixture
    def collection(self) -> ParityCollection:
        return generated_collection(seed=2)

    @pytest.fixture
    def directory(self, collection: ParityCollection, tmp_path: Path) -> Path:
        return collection.write(tmp_path / "generated")

    @pytest.fixture
    async def gateway(self, lexical: FastAPI, tmp_path: Path) -> AsyncIterator[GatewayClient]:
        (tmp_path / "pipelines").mkdir()
        (tmp_path / "pipelines" / "bm25.yaml").write_text("name: bm25\nstages: [{kind: retrieve, backend: lexical}]")
        settings = GatewaySettings(
            backends={"lexical": BackendAddress(family="lexical", url="http://lexical")},
            pipelines=tmp_path / "pipelines",
        )
        front = build_gateway(settings, lambda name, _: FixedEndpoints(FaultyTransport(lexical)))
        async with AsyncExitStack() as stack:
            for app in (lexical, front):
                await stack.enter_async_context(app.router.lifespan_context(app))
            client = await stack.enter_async_context(connected("http://localhost", FaultyTransport(front)))
            yield client
            await client.remove("generated")

    async def compared(
        self, gateway: GatewayClient, directory: Path, published: str, preset: str = "beir"
    ) -> ParityReport:
        figure = given_figure(preset, "nDCG@10", published)
        return await compare_with_published(gateway, parity_experiment(directory), preset, figure)

    @pytest.mark.parametrize("preset", ["beir", "anserini-flat", "anserini-multifield"])
    async def test_without_a_fault_the_figure_is_equal(
        self, gateway: GatewayClient, collection: ParityCollection, directory: Path, preset: str
    ) -> None:
        report = await self.compared(gateway, directory, collection.figure(BUILT_IN[preset]), preset)
        assert verdict(report).startswith(
            "Equal to the 4th decimal. Settings unlike those of the source: self-retrieved"
        )

    @pytest.mark.parametrize(
        ("fault", "named"),
        [
            ({"k1": 0.6, "tie_breaker": 0.1}, "k1 ('0.6' instead of '1.2'); tie_breaker ('0.1' instead of '0.5')"),
            ({"match": "most_fields"}, "fields ('most_fields' instead of 'best_fields')"),
        ],
        ids=["parameters", "fields"],
    )
    async def test_a_wrong_parameter_of_the_served_preset_is_named(
        self,
        gateway: GatewayClient,
        collection: ParityCollection,
        directory: Path,
        monkeypatch: pytest.MonkeyPatch,
        fault: Mapping[str, object],
        named: str,
    ) -> None:
        published = collection.figure(BUILT_IN["beir"])
        assert isinstance(BUILT_IN, dict)
        faulty = LexicalPreset.model_validate({**dict(BUILT_IN["beir"]), **fault})
        monkeypatch.setitem(BUILT_IN, "beir", faulty)
        report = await self.compared(gateway, directory, published)
        assert not report.equal
        assert report.figures["nDCG@10"] == pytest.approx(float(collection.figure(faulty)), abs=1e-4)
        assert named in verdict(report)
