"""`make demo` checks dataset, metrics, sizes and pipelines before anything starts."""

import json
from pathlib import Path

import pytest

from deploy.local.choices import choose
from deploy.local.demo_plan import demo_experiments, expect_measurable
from deploy.local.problem import StackProblem
from deploy.local.systems import demo_systems
from services.chassis.deadlines import SEARCH_MS
from tests.support.gateway_stub import write_shop

MIX = """
name: my-mix
stages:
  - kind: fuse
    method: rrf
    inputs:
      - {kind: retrieve, id: bm25, backend: lexical, top: 50}
      - {kind: retrieve, id: splade, backend: sparse, top: 50}
"""
SPARSE = json.dumps(
    {
        name: {"family": family, "url": f"http://127.0.0.1:{port}"}
        for name, family, port in (("lexical", "lexical", 1), ("sparse", "sparse", 2))
    }
)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return write_shop(tmp_path / "shop")


def checked(environment: dict[str, str]) -> None:
    expect_measurable(demo_experiments(environment), environment)


def refusal(environment: dict[str, str]) -> str:
    with pytest.raises(StackProblem, match="nothing was started") as refused:
        checked(environment)
    return str(refused.value)


def test_what_can_be_measured_passes(shop: Path, tmp_path: Path) -> None:
    checked(choose({}, tmp_path, own_ports=True).environment())
    checked({"DATASET": str(shop), "METRICS": "nDCG@10,bpref", "PIPELINES": "bm25, hybrid", "QUERIES": "2"})


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"DATASET": "not-there"}, "not-there"),
        ({"METRICS": "nDGC@10"}, "METRICS=nDGC@10: "),
        ({"QUERIES": "many"}, "QUERIES=many: "),
        ({"TOP": "0"}, "TOP=0: "),
        ({"PRESET": "mine"}, "mine"),
        ({"PIPELINES": "hybrid,hybird"}, "'hybird'; known: bm25"),
        ({"PIPELINES": "hybird"}, "Did you mean 'hybrid'?"),
        ({"PIPELINES": "splade"}, "'sparse'"),
        ({"PIPELINES": "bm25,missing.yaml"}, "missing.yaml"),
    ],
)
def test_each_wrong_name_is_refused(wrong: dict[str, str], named: str) -> None:
    assert named in refusal(wrong)


def test_a_wrong_line_of_the_dataset_is_refused(shop: Path) -> None:
    with (shop / "corpus.jsonl").open("a") as file:
        file.write("no JSON\n")
    assert "corpus.jsonl:7: " in refusal({"DATASET": str(shop)})


def test_a_demo_asks_with_the_deadline_of_a_search_unless_another_is_set() -> None:
    asked = [demo_experiments(given)[0].deadline_ms for given in ({}, {"DEADLINE_MS": "60000"})]
    assert asked == [SEARCH_MS, 60_000]
    assert "DEADLINE_MS=0: " in refusal({"DEADLINE_MS": "0"})


def test_a_pipeline_may_be_a_yaml_file_and_starts_what_it_needs(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(MIX)
    environment = {"PIPELINES": f"bm25,{file}"}
    (experiment,) = demo_experiments(environment)
    assert experiment.arms == ("bm25", "my-mix")
    assert demo_systems(environment, experiment.pipelines) == ("sparse",)
    checked({**environment, "GATEWAY_BACKENDS": SPARSE})
    assert "my-mix: " in refusal(environment)
    assert "my-mix: " in refusal({**environment, "GATEWAY_BACKENDS": SPARSE, "GATEWAY_INLINE_PIPELINES": "false"})
    file.write_text(MIX.replace("kind: fuse", "kind: mix"))
    assert f"{file}: stages.0" in refusal(environment)
    file.write_text("bm25\n")
    assert f"{file}: " in refusal(environment)
