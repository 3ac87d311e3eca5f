"""Suite of parity: each deliberate fault is named, on a generated collection whose figures another BM25 computes."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from fastapi import FastAPI

from evaluator.client.client import GatewayClient, GatewayError, connected
from evaluator.parity.comparison import ParityReport, parity, parity_experiment
from evaluator.parity.published import given_figure
from evaluator.parity.verdict import verdict
from gateway.app import build_app as build_gateway
from gateway.settings import BackendAddress, GatewaySettings
from services.contracts.collections import LexicalPreset
from services.lexical.presets import BUILT_IN
from tests.support.backends import FaultyTransport
from tests.support.parity_collection import ParityCollection, generated_collection
from tests.support.wires import FixedEndpoints


def serve_faulty(monkeypatch: pytest.MonkeyPatch, preset: str, **fault: object) -> None:
    """Lets services serve a built-in preset with other parameters, as one with that mistake would."""
    assert isinstance(BUILT_IN, dict)
    monkeypatch.setitem(BUILT_IN, preset, LexicalPreset.model_validate({**dict(BUILT_IN[preset]), **fault}))


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
        return await parity(gateway, parity_experiment(directory), preset, given_figure(preset, "nDCG@10", published))

    async def test_without_a_fault_the_figure_is_equal(
        self, gateway: GatewayClient, collection: ParityCollection, directory: Path
    ) -> None:
        report = await self.compared(gateway, directory, collection.figure(BUILT_IN["beir"]))
        assert verdict(report).startswith("Equal to the 4th decimal.")
        assert report.tried == ()

    @pytest.mark.parametrize(
        ("fault", "setting"),
        [
            pytest.param({"k1": 0.6}, "k1", id="k1"),
            # Each takes seconds: `make test` has one of a kind, `make test-integration` all.
            pytest.param({"b": 0.3}, "b", id="b", marks=pytest.mark.integration),
            pytest.param({"tie_breaker": 0.1}, "tie_breaker", id="tie_breaker", marks=pytest.mark.integration),
            pytest.param({"match": "most_fields"}, "fields", id="fields", marks=pytest.mark.integration),
        ],
    )
    async def test_a_wrong_parameter_of_the_served_preset_is_named(
        self,
        gateway: GatewayClient,
        collection: ParityCollection,
        directory: Path,
        monkeypatch: pytest.MonkeyPatch,
        fault: Mapping[str, object],
        setting: str,
    ) -> None:
        published = collection.figure(BUILT_IN["beir"])
        serve_faulty(monkeypatch, "beir", **fault)
        report = await self.compared(gateway, directory, published)
        assert not report.equal
        assert [set(change) for change in report.explained_by] == [{setting}]
        assert f"Explained by {setting} (" in verdict(report)

    @pytest.mark.parametrize(
        ("convention", "said"),
        [
            pytest.param(
                {"self_retrieved": "kept"},
                "self-retrieved documents (kept instead of same id and text).",
                id="self-retrieved documents kept",
                marks=pytest.mark.integration,
            ),
            pytest.param(
                {"self_retrieved": "same id"},
                "self-retrieved documents (same id instead of same id and text).",
                id="identical ids dropped",
                marks=pytest.mark.integration,
            ),
            pytest.param(
                {"ties": "descending"},
                "order of equal scores by id (descending instead of ascending).",
                id="tie order",
                marks=pytest.mark.integration,
            ),
            pytest.param(
                {"missing": "dropped"},
                "queries without hits (dropped instead of counted as 0).",
                id="missing queries",
                marks=pytest.mark.integration,
            ),
        ],
    )
    async def test_another_convention_of_the_published_figure_is_named(
        self,
        gateway: GatewayClient,
        collection: ParityCollection,
        directory: Path,
        convention: Mapping[str, str],
        said: str,
    ) -> None:
        report = await self.compared(gateway, directory, collection.figure(BUILT_IN["beir"], **convention))
        assert not report.equal
        assert [dict(change) for change in report.explained_by] == [dict(convention)]
        assert f"Explained by {said}" in verdict(report)


class FurtherParitySuite(ParitySuite):
    """Takes longer: the other presets, several changes and several faults at once."""

    @pytest.mark.parametrize("preset", ["anserini-flat", "anserini-multifield"])
    async def test_the_other_presets_are_equal_too(
        self, gateway: GatewayClient, collection: ParityCollection, directory: Path, preset: str
    ) -> None:
        report = await self.compared(gateway, directory, collection.figure(BUILT_IN[preset]), preset)
        assert report.equal

    async def test_two_changes_that_give_the_same_figure_are_both_named(
        self, gateway: GatewayClient, collection: ParityCollection, directory: Path
    ) -> None:
        # A tie_breaker of 1 is the sum of both fields.
        summed = BUILT_IN["beir"].model_copy(update={"match": "most_fields", "tie_breaker": 0.0})
        report = await self.compared(gateway, directory, collection.figure(summed))
        assert [dict(one) for one in report.explained_by] == [{"fields": "most_fields"}, {"tie_breaker": 1.0}]
        assert "Explained by 2 changes, each without the others: fields (most_fields" in verdict(report)

    async def test_two_faults_at_once_are_named_together(
        self,
        gateway: GatewayClient,
        collection: ParityCollection,
        directory: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        published = collection.figure(BUILT_IN["beir"])
        serve_faulty(monkeypatch, "beir", k1=0.6, tie_breaker=0.1)
        report = await self.compared(gateway, directory, published)
        assert "Explained by k1 (1.2 instead of 0.6) and tie_breaker (0.5 instead of 0.1), together." in verdict(report)

    async def test_a_gap_of_another_cause_stays_unexplained_and_nothing_is_left_behind(
        self, gateway: GatewayClient, directory: Path
    ) -> None:
        report = await self.compared(gateway, directory, "0.9999")
        assert report.explained_by == ()
        assert "Explained by none of the " in verdict(report)
        with pytest.raises(GatewayError, match="generated-parity-1"):
            await gateway.collection("generated-parity-1")
