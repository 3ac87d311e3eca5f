"""Added judgments replace or complete those of a dataset, and every one of them is counted."""

from pathlib import Path

import pytest

from evaluator.datasets.added_judgments import merged_judgments
from evaluator.errors import EvaluationError

GRADES = {"q1": {"a": 1, "b": 0}, "q2": {"c": 1}}


def qrels(path: Path, *rows: str) -> Path:
    path.write_text("".join(row.replace(" ", "\t") + "\n" for row in rows))
    return path


def test_grades_are_added_changed_and_counted(tmp_path: Path) -> None:
    path = qrels(tmp_path / "more.qrels", "q1 0 a 2", "q1 0 b 0", "q1 0 d 3", "q2 0 e 0", "q9 0 a 1", "q2 0 f -1")
    merged = merged_judgments(GRADES, [path])
    assert merged.grades == {"q1": {"a": 2, "b": 0, "d": 3}, "q2": {"c": 1, "e": 0}}
    (file,) = merged.files
    assert (file.added, file.changed, file.unchanged, file.other_queries, file.negative) == (2, 1, 1, 1, 1)
    assert GRADES["q1"] == {"a": 1, "b": 0}


def test_a_later_file_replaces_an_earlier_one(tmp_path: Path) -> None:
    first, second = qrels(tmp_path / "first.tsv", "q1 a 2"), qrels(tmp_path / "second.tsv", "q1 a 3")
    merged = merged_judgments(GRADES, [first, second])
    assert merged.grades["q1"]["a"] == 3
    assert [file.changed for file in merged.files] == [1, 1]


def test_added_judgments_of_documents_that_the_corpus_lacks_are_counted(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(f'{{"_id": "{name}", "text": "t"}}\n' for name in "abcd"))
    first, second = qrels(tmp_path / "one.tsv", "q1 d 1", "q1 x 1", "q2 x 0"), qrels(tmp_path / "two.tsv", "q2 d 1")
    merged = merged_judgments(GRADES, [first, second], corpus)
    assert [(file.added, file.not_in_corpus) for file in merged.files] == [(3, 2), (1, 0)]
    assert merged.grades["q2"] == {"c": 1, "x": 0, "d": 1}
    assert "lacks the documents of 2" in merged.files[0].sentence
    assert "lacks" not in merged.files[1].sentence


def test_a_missing_file_is_not_taken_for_a_split(tmp_path: Path) -> None:
    qrels(tmp_path / "other.tsv", "q1 a 1")
    with pytest.raises(EvaluationError, match=r"more\.tsv: "):
        merged_judgments(GRADES, [tmp_path / "more.tsv"])


def test_a_beir_header_is_not_a_judgment(tmp_path: Path) -> None:
    path = qrels(tmp_path / "more.tsv", "query-id corpus-id score", "q1 x 1")
    assert merged_judgments(GRADES, [path]).files[0].added == 1


def test_a_mistyped_grade_in_the_first_line_is_an_error(tmp_path: Path) -> None:
    path = qrels(tmp_path / "more.tsv", "q1 x one", "q1 y 1")
    with pytest.raises(EvaluationError, match=r"more\.tsv:1: .*'one'"):
        merged_judgments(GRADES, [path])


def test_a_file_of_another_dataset_is_refused(tmp_path: Path) -> None:
    path = qrels(tmp_path / "other.tsv", "q77 x 1")
    with pytest.raises(EvaluationError, match="judges none"):
        merged_judgments(GRADES, [path])


def test_a_file_given_twice_is_refused(tmp_path: Path) -> None:
    path = qrels(tmp_path / "more.tsv", "q1 x 1")
    with pytest.raises(EvaluationError, match="given before"):
        merged_judgments(GRADES, [path, path])


def test_no_file_changes_nothing() -> None:
    assert merged_judgments(GRADES, []).grades == GRADES
