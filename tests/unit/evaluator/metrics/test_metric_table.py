"""Metrics are known by their names, and the document tells of every one of them."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from evaluator.experiments.experiment import Experiment
from evaluator.metrics.metric_table import DEFAULT_METRICS, FAMILIES, parse_metric

DOCUMENT = Path(__file__).resolve().parents[4] / "docs" / "metrics.md"


def row(form: str) -> str:
    family = FAMILIES[form]
    names = (f"`{name.format('k')}`" if name else "–" for name in (family.ranx, family.trec_eval))
    return f"| `{form}` | {family.definition} | {' | '.join(names)} |"


def test_the_document_has_the_table_row_by_row() -> None:
    rows = [line for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert rows == [row(form) for form in FAMILIES]


@pytest.mark.parametrize("form", FAMILIES)
def test_every_form_of_the_table_can_be_named(form: str) -> None:
    metric = parse_metric(form.replace("@k", "@7").replace(".p", ".05"))
    assert metric.family is FAMILIES[form]
    assert metric.cutoff == (7 if form.endswith("@k") else None)


@pytest.mark.parametrize(
    "name",
    ["ndcg@10", "nDCG", "nDCG@0", "nDCG@010", "nDCG@1001", "nDCG@k", "nDCG@10 ", "@10", "", "RBP.8", "RBP.00", "RBP.p",
     "RBP@10", "bpref@10", "MAP.80", "nDCG@1٠", "RBP.٨٠"],
)  # fmt: skip
def test_any_other_name_is_refused_with_those_that_exist(name: str) -> None:
    with pytest.raises(ValueError, match=r"nDCG@k.* 1000"):
        parse_metric(name)


def test_a_metric_without_a_cutoff_is_told_with_its_depth() -> None:
    assert parse_metric("MAP").label(100) == "MAP@100"
    assert parse_metric("bpref").label(1000) == "bpref@1000"
    assert parse_metric("MAP@10").label(100) == "MAP@10"


def test_an_experiment_measures_seven_metrics_unless_it_names_others() -> None:
    asked = {"name": "mine", "dataset": "here", "pipelines": ["bm25"]}
    assert Experiment.model_validate(asked).metrics == DEFAULT_METRICS
    assert Experiment.model_validate(asked | {"metrics": ["nDCG@20", "bpref"]}).metrics == ("nDCG@20", "bpref")
    with pytest.raises(ValidationError, match="'ndcg@20'"):
        Experiment.model_validate(asked | {"metrics": ["ndcg@20"]})
    with pytest.raises(ValidationError, match="twice"):
        Experiment.model_validate(asked | {"metrics": ["MAP", "MAP"]})
