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


def test_a_missing_file_one_of_another_dataset_and_one_given_twice_are_refused(tmp_path: Path) -> None:
    other, more = qrels(tmp_path / "other.tsv", "q77 x 1"), qrels(tmp_path / "more.tsv", "q1 x 1")
    for files, said in (
        ([tmp_path / "none.tsv"], r"none\.tsv: "),
        ([other], "judges none"),
        ([more, more], "given before"),
    ):
        with pytest.raises(EvaluationError, match=said):
            merged_judgments(GRADES, files)
