"""Batches stay within the wire's limits, and presets and orders are chosen as documented."""

import json
from pathlib import Path

import pytest

from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import Experiment, collection_name, experiment_path, read_experiment
from evaluator.steps.arms import with_preset
from evaluator.steps.corpus_batches import LoadPace, batches, documents_body
from evaluator.steps.rank import choose_queries
from services.chassis.requests.json_shape import parse_json
from services.contracts.collections import DocumentsRequest
from services.contracts.documents import Document, SentDocument
from services.contracts.pipelines import Pipeline
from services.contracts.vectors import DocumentVector

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


def test_a_batch_has_as_many_documents_as_it_may_then_and_all_arrive_in_order() -> None:
    documents = [SentDocument(id=str(number), text="ä\u2028", metadata={"n": 1}) for number in range(130)]
    pace, sent = LoadPace(documents=64), []
    for batch in batches(documents, lambda: pace.documents):
        sent.append(batch)
        pace.documents = 50
    assert [len(batch) for batch in sent] == [64, 50, 16]
    requests = [DocumentsRequest.model_validate_json(documents_body("mine", batch)) for batch in sent]
    assert [item for request in requests for item in request.documents] == documents


def test_a_batch_stays_below_its_bytes_however_long_the_documents_are() -> None:
    documents = [Document(id=str(number), text="x" * 400) for number in range(10)]
    bodies = [documents_body("mine", batch) for batch in batches(documents, lambda: 256, most_bytes=1_000)]
    assert [len(json.loads(body)["documents"]) for body in bodies] == [2] * 5
    assert all(len(body) < 1_100 for body in bodies)


def test_a_batch_stays_below_the_values_that_the_gateway_takes() -> None:
    documents = [Document(id=str(number), metadata={"tags": ("x",) * 9_000}) for number in range(30)]
    sent = list(batches(documents, lambda: 256))
    assert sum(len(batch) for batch in sent) == 30
    for batch in sent:
        parse_json(documents_body("mine", batch))  # raises BadInput above 100,000 values


def test_a_document_that_no_batch_can_hold_is_named() -> None:
    with pytest.raises(EvaluationError, match="'giant'"):
        list(batches([Document(id="giant", text="x" * 2_000)], lambda: 256, most_bytes=1_000))


def test_of_vectors_that_no_batch_can_hold_it_is_said_how_to_do_without() -> None:
    vector = DocumentVector(model="m", dense=(0.1,) * 900)
    with pytest.raises(EvaluationError, match="export without --vectors"):
        list(batches([SentDocument(id="a", text="a", vectors={"dense": vector})], lambda: 256, most_bytes=1_000))


def test_a_preset_is_set_in_lexical_retrieves_only() -> None:
    changed = with_preset(PIPELINE, "anserini-flat", frozenset({"words"}))
    assert [source.preset for source in changed.stages[0].inputs] == ["anserini-flat", None]
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


@pytest.mark.parametrize("name", ["demo", "scifact", "scifact-load", "nfcorpus", "rerank-depths"])
def test_bundled_experiments_read(name: str) -> None:
    assert read_experiment(experiment_path(name)).name == name


def test_a_collection_is_named_after_its_directory() -> None:
    assert collection_name(Path("/data/BEIR/TREC COVID v1.0/")) == "trec-covid-v1-0"
