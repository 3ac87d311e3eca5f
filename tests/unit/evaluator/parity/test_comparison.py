"""Figures of scored answers under other conventions of evaluation."""

from pathlib import Path

import pytest

from evaluator.datasets.reader import Dataset, read_dataset
from evaluator.parity.answers import DEPTH
from evaluator.parity.comparison import figures, ranking, undecided_ties
from evaluator.parity.figure_settings import FigureSettings, changed

OURS = FigureSettings(fields="flat", k1=0.9, b=0.4, tie_breaker=0.0)
HITS = (("q1", 3.0), ("a", 2.0), ("b", 2.0), ("q2", 1.0))


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    (tmp_path / "qrels").mkdir()
    corpus = [("q1", "red bell"), ("q2", "another text"), ("a", "bell"), ("b", "bell")]
    (tmp_path / "corpus.jsonl").write_text("".join(f'{{"_id": "{one}", "text": "{text}"}}\n' for one, text in corpus))
    (tmp_path / "queries.jsonl").write_text('{"_id": "q1", "text": "red bell"}\n{"_id": "q2", "text": "unheard of"}\n')
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\tb\t1\nq2\ta\t1\n")
    return read_dataset(tmp_path)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, ("a", "b", "q2")),
        ({"self_retrieved": "kept"}, ("q1", "a", "b", "q2")),
        ({"ties": "descending"}, ("b", "a", "q2")),
        ({"depth": 2}, ("a",)),  # the query's own document counts as one of them, as in Anserini
    ],
)
def test_an_answer_is_ordered_cut_and_cleared_as_the_settings_say(
    dataset: Dataset, change: dict[str, str], expected: tuple[str, ...]
) -> None:
    assert ranking(HITS, "q1", dataset, changed(OURS, change)) == expected


def test_a_document_with_the_id_of_a_query_but_another_text_is_dropped_by_id_alone(dataset: Dataset) -> None:
    assert ranking(HITS, "q2", dataset, OURS) == ("q1", "a", "b", "q2")
    assert ranking(HITS, "q2", dataset, changed(OURS, {"self_retrieved": "same id"})) == ("q1", "a", "b")


def test_scores_that_are_equal_as_float32_are_ties(dataset: Dataset) -> None:
    close = (("a", 20.0000002), ("b", 20.0000001))
    assert ranking(close, "q1", dataset, changed(OURS, {"ties": "descending"})) == ("b", "a")


def test_queries_without_hits_count_as_0_or_not_at_all(dataset: Dataset) -> None:
    answers = {"q1": (("b", 1.0),), "q2": ()}
    assert figures(dataset, answers, OURS)["nDCG@10"] == 0.5
    assert figures(dataset, answers, changed(OURS, {"missing": "dropped"}))["nDCG@10"] == 1.0
    assert figures(dataset, {"q2": ()}, changed(OURS, {"missing": "dropped"}))["nDCG@10"] == 0.0


def test_a_full_answer_of_equal_scores_leaves_the_other_order_undecided() -> None:
    equal = tuple((f"d{number:04}", 1.0) for number in range(DEPTH))
    assert undecided_ties({"q1": equal, "q2": equal[:-1], "q3": (*equal[:-1], ("z", 0.5))}) == 1
