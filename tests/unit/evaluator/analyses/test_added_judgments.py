"""Added judgments take the place of a set's own, and belong to the set that is said."""

from pathlib import Path

import pytest

from evaluator.analyses.added_judgments import add_judgments, judgment_files
from evaluator.errors import DatasetError, EvaluationError, WrongOption

OWN = {"q1": {"d1": 1, "d2": 0}, "q2": {"d9": 2}}
QUERIES = {"q1": "chain", "q2": "wheel", "q3": "not measured"}


@pytest.mark.parametrize(
    "content",
    ["query-id\tcorpus-id\tscore\nq1\td2\t1\nq1\td3\t2\nq9\td1\t1\n", "q1 0 d2 1\nq1 0 d3 2\nq9 0 d1 1\n"],
    ids=["beir", "trec"],
)
def test_grades_are_added_changed_and_ignored(tmp_path: Path, content: str) -> None:
    file = tmp_path / "more.qrels"
    file.write_text(content)
    found = add_judgments(file, OWN, ["q1", "q2"], QUERIES)
    assert found.grades == {"q1": {"d1": 1, "d2": 1, "d3": 2}, "q2": {"d9": 2}}
    assert (found.added, found.changed, found.other_queries) == (1, 1, 1)


def test_judgments_of_another_set_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "more.tsv"
    file.write_text("q7\td1\t1\n")
    with pytest.raises(EvaluationError, match="it judges no query that was measured; is it of another set"):
        add_judgments(file, OWN, ["q1", "q2"], QUERIES)


def test_a_mistyped_grade_of_the_first_line_is_no_header(tmp_path: Path) -> None:
    file = tmp_path / "more.tsv"
    file.write_text("q1\td1\tl\nq1\td2\t1\n")
    with pytest.raises(DatasetError, match="the grade 'l' is not a whole number"):
        add_judgments(file, OWN, ["q1"], QUERIES)


def test_a_file_that_is_not_there_is_a_wrong_option(tmp_path: Path) -> None:
    with pytest.raises(WrongOption, match=r"--judgments .*none.tsv: no such file"):
        add_judgments(tmp_path / "none.tsv", OWN, ["q1"], QUERIES)


def test_a_file_alone_is_of_the_only_set() -> None:
    assert judgment_files(["more.tsv"], ["shop"]) == {"shop": Path("more.tsv")}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["more.tsv"], "query ids of two sets may be the same; say of which set it is: shop=more.tsv"),
        (["shed=more.tsv"], "no set 'shed' in these runs; there are shop, depot"),
        (["shop=a.tsv", "shop=b.tsv"], "a second file for shop"),
    ],
)
def test_the_set_of_a_file_is_never_guessed(words: list[str], said: str) -> None:
    with pytest.raises(WrongOption, match=said):
        judgment_files(words, ["shop", "depot"])
