"""Run files keep the order that the system gave, for every tool that reads them."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.errors import EvaluationError
from evaluator.trec_runs import read_run, run_lines

ids = st.text(st.characters(codec="utf-8", exclude_characters="\t\r\n", exclude_categories=["Cc", "Cs"]), min_size=1)


def test_scores_fall_strictly_so_that_no_tool_finds_a_tie() -> None:
    assert run_lines("q1", ["b", "a"], "arm") == "q1\tQ0\tb\t1\t1\tarm\nq1\tQ0\ta\t2\t0\tarm\n"


@given(st.dictionaries(ids, st.lists(ids, unique=True, min_size=1, max_size=5), max_size=4))
def test_what_was_written_is_read_back_ids_with_spaces_too(rankings: dict[str, list[str]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "arm.trec"
        text = "".join(run_lines(query, ranking, "arm") for query, ranking in rankings.items())
        path.write_text(text, encoding="utf-8", newline="")
        assert read_run(path) == {query: tuple(ranking) for query, ranking in rankings.items()}


def test_other_tools_files_are_ordered_by_score_then_id_whatever_their_ranks_say(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("q Q0 b 0 1.5 x\nq Q0 a 0 1.5 x\nq Q0 c 0 2.5 x\n")
    assert read_run(tmp_path / "run") == {"q": ("c", "a", "b")}


@pytest.mark.parametrize("line", ["q Q0 a 1 2.0", "q Q0 a 1 high x", "q Q0 a 1 nan x", "q Q0 a 1 1 x\nq Q0 a 2 0 x"])
def test_a_line_that_is_none_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "run").write_text(line + "\n")
    with pytest.raises(EvaluationError, match=r"run:[12]: "):
        read_run(tmp_path / "run")
