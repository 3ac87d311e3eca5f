"""Bundled experiments name their sets by the catalogue, so that a fetched set is found."""

from pathlib import Path

import pytest

from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import experiment_path
from evaluator.experiments.suite import experiments_of, read_plan
from evaluator.service.page_routes import bundled_experiments
from tests.support.simulated_runs import write_collection

ON_PUBLIC_SETS = [("scifact", "scifact"), ("scifact-load", "scifact"), ("nfcorpus", "nfcorpus")]
ON_PUBLIC_SETS += [("rerank-depths", "scifact")]


@pytest.fixture(autouse=True)
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory without collections, and none beside it."""
    directory = tmp_path / "checkout"
    directory.mkdir()
    monkeypatch.chdir(directory)
    return directory


@pytest.mark.parametrize(("experiment", "dataset"), ON_PUBLIC_SETS)
def test_a_bundled_experiment_reads_the_set_that_was_fetched(experiment: str, dataset: str, checkout: Path) -> None:
    write_collection(checkout / ".datasets" / dataset)
    (read,) = experiments_of(read_plan(experiment_path(experiment)))
    assert (read.directory, read.target) == (Path(".datasets") / dataset, dataset)


@pytest.mark.parametrize(("experiment", "dataset"), ON_PUBLIC_SETS)
def test_a_bundled_experiment_without_its_set_says_how_to_fetch_it(experiment: str, dataset: str) -> None:
    with pytest.raises(EvaluationError, match=rf"`.+ datasets fetch {dataset}`"):
        read_plan(experiment_path(experiment))


def test_the_form_lists_an_experiment_without_its_set_with_the_pipelines_that_it_has() -> None:
    listed = dict(bundled_experiments())["scifact"]
    assert (listed.dataset, listed.arms) == ("scifact", ("bm25", "dense", "hybrid"))
