"""Which sets a model saw in training, from the list of models, and how a report shows it."""

from pathlib import Path

import pytest

from evaluator.datasets.training_sets import UNLISTED, saw_in_training, trained_on
from evaluator.report.report_page import report_blocks
from evaluator.report.run_report import Report
from services.inference.profiles import MODELS_FILE, load_profiles
from tests.support.charted_blocks import tables_of
from tests.support.gateway_stub import GatewayStub, write_shop
from tests.support.small_runs import evaluated, planned

MINILM = "all-MiniLM-L6-v2"


def test_every_model_of_the_list_has_its_sets() -> None:
    for name, profile in load_profiles(MODELS_FILE).items():
        known = profile.trained_on
        assert trained_on(name) == (known if isinstance(known, str) else ", ".join(known))


@pytest.mark.parametrize(
    ("model", "dataset", "saw"),
    [
        (MINILM, "nq", True),
        (f"{MINILM}@136a48b16099", "msmarco", True),
        (f"{MINILM}+491f4db9@136a48b16099", "msmarco", True),  # of expansions
        (MINILM, "scifact", False),
        ("minilm-l6-ce-v4", "hotpotqa", True),
        ("bge-small-en-v1.5", "nq", False),
        ("another", "nq", False),
    ],
)
def test_a_dataset_that_a_model_saw_is_known_by_its_name(model: str, dataset: str, saw: bool) -> None:
    assert saw_in_training(model, dataset) is saw


async def report_on(directory: Path, dataset: str, model: str) -> Report:
    write_shop(directory / dataset)
    experiment = planned(directory, dataset=str(directory / dataset), collection="shop")
    return (await evaluated(GatewayStub(model={"model": model}), experiment, directory))[0]


async def test_a_report_marks_the_pipelines_whose_model_saw_the_dataset(tmp_path: Path) -> None:
    report = await report_on(tmp_path, "nq", MINILM)
    tables = {table.name: table.rows for table in tables_of(report_blocks(report))}
    assert [row[0] for row in tables["pipelines"][1:]] == ["bm25", "hybrid (trained on this set)"]
    assert tables["models"][1:] == [[MINILM, "hybrid", trained_on(MINILM), "yes"]]


async def test_a_report_on_another_dataset_marks_none(tmp_path: Path) -> None:
    report = await report_on(tmp_path, "mine", "another")
    tables = {table.name: table.rows for table in tables_of(report_blocks(report))}
    assert [row[0] for row in tables["pipelines"][1:]] == ["bm25", "hybrid"]
    assert tables["models"][1:] == [["another", "hybrid", UNLISTED, "not listed"]]
