"""What `make demo SYSTEMS=paper` measures: pipelines that are served and whose expansions there are."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deploy.local.choices import Choices, choose
from deploy.local.demo_plan import METRICS, collection_of, paper_options
from deploy.local.problem import StackProblem
from evaluator.__main__ import app
from evaluator.analyses.paper_systems import paper_pipelines
from evaluator.datasets.catalogue import LocatedSet
from gateway.families import STARTABLE
from gateway.search.catalog import read_pipelines
from gateway.settings import BackendAddress, GatewaySettings
from services.contracts.pipelines import Pipeline
from services.sparse.app import build_app
from services.sparse.settings import SparseSettings
from tests.support.gateway_stub import write_shop
from tests.support.served import served

LINES = {
    "deepct": {"model": "splade@0123456789ab", "words": "bell|3"},
    "doc2query": {"model": "t5@0123456789ab", "queries": ["what rings"]},
}


def write_expansions(path: Path, method: str) -> None:
    path.write_text(json.dumps({"_id": "d1", method: LINES[method]}) + "\n")


@pytest.fixture
def shop(tmp_path: Path) -> LocatedSet:
    write_shop(tmp_path / "shop")
    return LocatedSet(tmp_path / "shop", None)


@pytest.fixture
def choices(tmp_path: Path) -> Choices:
    return choose({"SYSTEMS": "paper"}, tmp_path, own_ports=True)


@pytest.fixture
def pipelines() -> Mapping[str, Pipeline]:
    backends = {name: BackendAddress(family=family, url="http://127.0.0.1:1") for name, family in STARTABLE.items()}
    plans = read_pipelines(GatewaySettings().pipelines, backends).plans
    return {name: plan.pipeline for name, plan in plans.items()}


def test_word_frequencies_are_made_and_what_lacks_queries_or_a_service_is_left_out_with_the_reason(
    choices: Choices, shop: LocatedSet, pipelines: Mapping[str, Pipeline]
) -> None:
    asked: list[tuple[str, ...]] = []

    def evaluator(_: Choices, *words: str) -> int:
        asked.append(words)
        write_expansions(Path(words[4]), "deepct")
        return 0

    said: list[str] = []
    options = paper_options(choices, {}, shop, pipelines, evaluator, said.append)
    (words,) = asked
    assert words[:4] == ("expand", "deepct", str(shop.directory), "--out")
    assert words[words.index("--sparse") + 1] == choices.url("sparse")
    given = dict(zip(options[::2], options[1::2], strict=True))
    assert given["--expansions"] == words[4]
    assert given["--metrics"] == METRICS
    assert given["--deadline-ms"] == "60000"
    left_out = [line.split()[0] for line in said]
    assert left_out == ["sparta", "doc2query", "dense-genq"]
    assert given["--pipelines"].split(",") == [name for name in paper_pipelines() if name not in left_out]


def test_a_service_that_weighs_no_words_leaves_deepct_out_and_the_others_in(
    choices: Choices, shop: LocatedSet, pipelines: Mapping[str, Pipeline], tmp_path: Path
) -> None:
    said: list[str] = []
    with served(build_app(SparseSettings(directory=tmp_path / "sparse", encoder="hashing"))) as url:

        def evaluator(_: Choices, *words: str) -> int:
            asked = [url if word == choices.url("sparse") else word for word in words]
            return CliRunner().invoke(app, asked).exit_code

        options = paper_options(choices, {}, shop, pipelines, evaluator, said.append)
    assert "--expansions" not in options
    assert "bm25" in options[-1].split(",")
    assert [line.split()[0] for line in said] == ["deepct", "sparta", "doc2query", "dense-genq"]


def test_expansions_beside_the_corpus_and_those_of_the_caller_are_used(
    choices: Choices, shop: LocatedSet, pipelines: Mapping[str, Pipeline], tmp_path: Path
) -> None:
    beside, own = shop.directory / "deepct.jsonl", tmp_path / "mine.jsonl"
    write_expansions(beside, "deepct")
    write_expansions(own, "doc2query")

    def evaluator(_: Choices, *words: str) -> int:
        raise AssertionError(words)

    given = {"EXPANSIONS": str(own), "METRICS": "nDCG@10", "DEADLINE_MS": "9000", "PIPELINES": "bm25,deepct"}
    options = paper_options(choices, given, shop, pipelines, evaluator, print)
    assert options == ["--expansions", f"{own},{beside}"]
    own.write_text("{}\n")
    with pytest.raises(StackProblem, match="_id"):
        paper_options(choices, given, shop, pipelines, evaluator, print)


def test_a_demo_of_the_paper_takes_one_collection_and_no_preset(tmp_path: Path) -> None:
    assert collection_of({}).directory.name == "bicycle-workshop"
    for given in ({"PRESET": "anserini-flat"}, {"DATASET": str(tmp_path / "none")}):
        with pytest.raises(StackProblem, match=next(iter(given))):
            collection_of(given)
