"""A query that no request can carry: every step refuses it by its id, or leaves it out where it was told to."""

import json
from pathlib import Path

import pytest
import yaml

from tests.contract.test_evaluator_cli import evaluator
from tests.support.gateway_stub import GatewayStub
from tests.support.small_runs import Evaluator

__all__ = ["evaluator"]  # fixtures

LEFT_OUT = "1 of 4 judged queries cannot be sent"


@pytest.fixture(autouse=True)
def unsendable(evaluator: Evaluator, tmp_path: Path) -> None:
    """The judged query q2 is white space."""
    path = tmp_path / "shop" / "queries.jsonl"
    path.write_text(path.read_text().replace("oil chain", " "))


@pytest.mark.parametrize(
    "words",
    [
        ("demo",),
        ("run", "demo"),
        ("ingest", "demo"),
        ("datasets", "check", "SHOP"),
        ("load", "demo", "--rate", "1", "--seconds", "1"),
    ],
)
def test_every_step_refuses_it_by_its_id(
    evaluator: Evaluator, stub: GatewayStub, tmp_path: Path, words: tuple[str, ...]
) -> None:
    done = evaluator(*(word.replace("SHOP", str(tmp_path / "shop")) for word in words))
    assert done.exit_code == 1
    assert "queries.jsonl:2: query 'q2'" in done.stderr
    assert not stub.documents


def test_a_run_without_it_is_valid_and_says_of_how_many_queries_its_figures_are(
    evaluator: Evaluator, stub: GatewayStub, tmp_path: Path
) -> None:
    done = evaluator("run", "demo", "--skip-unsendable", "--top", "5")
    report = json.loads((tmp_path / "runs" / "latest" / "report.json").read_text())
    lost = [figures for figures in report["pipelines"].values() if figures["errors"]]
    assert not lost, done.output
    assert any(LEFT_OUT in warning for warning in report["warnings"])
    assert report["counts"]["judged_queries"] == 3
    assert all(search.query.strip() for search in stub.searches)
    for words in (("compare", "latest"), ("analyse", "latest")):
        assert LEFT_OUT in " ".join(evaluator(*words).output.split())


def test_a_load_without_it_says_of_how_many_queries_its_figures_are(evaluator: Evaluator) -> None:
    evaluator("ingest", "demo", "--skip-unsendable")
    traffic = ("--rate", "40", "--seconds", "0.2", "--slice-seconds", "0.05", "--warmup-seconds", "0")
    done = evaluator("load", "demo", "--skip-unsendable", *traffic, PIPELINES="bm25")
    assert LEFT_OUT in " ".join(done.output.split()), done.output


def test_a_query_that_is_too_long_for_a_pipeline_is_refused_by_both_names_before_any_is_sent(
    evaluator: Evaluator, stub: GatewayStub, tmp_path: Path
) -> None:
    path = tmp_path / "shop" / "queries.jsonl"
    path.write_text(path.read_text().replace('" "', '"chain"').replace("red bell", "x" * 16_000))
    legs = [{"kind": "retrieve", "id": f"leg{number}", "backend": "lexical"} for number in range(5)]
    pipeline = {"name": "wide", "stages": [{"kind": "fuse", "inputs": legs}]}
    experiment = {"name": "wide", "dataset": str(tmp_path / "shop"), "pipelines": [pipeline]}
    (tmp_path / "wide.yaml").write_text(yaml.safe_dump(experiment))
    done = evaluator("run", str(tmp_path / "wide.yaml"), PIPELINES="")
    assert done.exit_code == 1
    assert "pipeline wide: query 'q1' cannot be sent" in done.stderr
    assert [search.query for search in stub.searches] == ["can this pipeline run"]
