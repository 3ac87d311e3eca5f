"""Presets and queries are chosen as documented."""

from pathlib import Path

import pytest

from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import Experiment, collection_name, experiment_path, read_experiment
from evaluator.steps.arms import with_preset
from evaluator.steps.rank import choose_queries
from services.contracts.pipelines import Fuse, Pipeline, Retrieve

PIPELINE = Pipeline.model_validate(
    {
        "name": "hybrid",
        "stages": [
            {
                "kind": "fuse",
                "inputs": [
                    {"kind": "retrieve", "backend": "words", "preset": "beir"},
                    {"kind": "retrieve", "backend": "dense"},
                ],
            },
            {"kind": "rerank"},
        ],
    }
)


def experiment(**given: object) -> Experiment:
    return Experiment.model_validate({"name": "e", "dataset": "d", "pipelines": ["bm25"], **given})


def test_a_preset_is_set_in_lexical_retrieves_only() -> None:
    changed = with_preset(PIPELINE, "anserini-flat", frozenset({"words"}))
    fusion = changed.stages[0]
    assert isinstance(fusion, Fuse)
    assert [source.preset for source in fusion.inputs if isinstance(source, Retrieve)] == ["anserini-flat", None]
    assert changed.fingerprint != PIPELINE.fingerprint
    assert [one.stage for one in changed.identified][-1] == changed.stages[-1]
    assert with_preset(PIPELINE, "anserini-flat", frozenset()) == PIPELINE


def test_a_sample_is_the_same_for_the_same_seed_and_its_warm_up_knows_none_of_it() -> None:
    judged = [f"q{number}" for number in range(100)]
    measured, warmup = choose_queries(judged, judged, experiment(queries=20))
    assert (measured, warmup) == choose_queries(judged, judged, experiment(queries=20))
    assert measured != choose_queries(judged, judged, experiment(queries=20, seed=1))[0]
    assert len(measured) == 20
    assert measured == sorted(measured, key=judged.index)
    assert len(warmup) == 5
    assert not set(warmup) & set(measured)


def test_without_other_queries_the_warm_up_uses_the_measured_ones() -> None:
    assert choose_queries(["a", "b"], ["a", "b"], experiment())[1] != []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"depth": 0}, "depth"),
        ({"pipelines": []}, "pipelines"),
        ({"pipelines": ["a", "a"]}, "twice"),
        ({"dept": 5}, "dept"),
        ({"preset": "other"}, "beir, anserini-flat, anserini-multifield"),
    ],
)
def test_an_experiment_that_is_none_says_which_field(given: dict[str, object], message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        read_experiment(experiment_path("demo"), **given)


def test_a_collection_is_named_after_its_directory() -> None:
    assert collection_name(Path("/data/BEIR/TREC COVID v1.0/")) == "trec-covid-v1-0"
