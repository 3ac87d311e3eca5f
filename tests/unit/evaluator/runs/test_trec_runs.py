"""Run files keep the order that the system gave, for every tool that reads them."""

import gzip
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.datasets.ids import plain_id
from evaluator.errors import EvaluationError
from evaluator.runs.trec_runs import read_run, read_scores, run_lines

ids = st.text(
    st.characters(codec="utf-8", exclude_characters="\t\r\n", exclude_categories=["Cc", "Cs"]), min_size=1
).filter(lambda text: plain_id(text) == text)  # a dataset has no others


def test_scores_fall_strictly_so_that_no_tool_finds_a_tie() -> None:
    assert run_lines("q1", ["b", "a"], "arm") == "q1\tQ0\tb\t1\t1\tarm\nq1\tQ0\ta\t2\t0\tarm\n"


@given(st.dictionaries(ids, st.lists(ids, unique=True, min_size=1, max_size=5), max_size=4))
def test_what_was_written_is_read_back_ids_with_spaces_too(rankings: dict[str, list[str]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "arm.trec"
        text = "".join(run_lines(query, ranking, "arm") for query, ranking in rankings.items())
        path.write_text(text, encoding="utf-8", newline="")
        assert read_run(path) == {query: tuple(ranking) for query, ranking in rankings.items()}


def test_the_files_own_scores_are_kept_beside_the_order(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("q Q0 b 0 1.5 x\nq Q0 a 0 1.5 x\nq Q0 c 0 -2e1 x\n")
    assert list(read_scores(tmp_path / "run")["q"].items()) == [("a", 1.5), ("b", 1.5), ("c", -20.0)]


@pytest.mark.parametrize(
    "lines",
    ["docno\tqid\tscore\trank\nd 1\tq 1\t2\t1\n", "tag,\tscore\tquery_id\tcorpus_id\nx\t2\tq 1\td 1\n",
     "qid\tdocid\tdocno\trank\tscore\tquery\nq 1\t17\td 1\t0\t2\ta bell\n"],
    ids=["four columns", "others beside", "as PyTerrier keeps them"],
)  # fmt: skip
def test_names_in_a_header_decide_and_not_places(tmp_path: Path, lines: str) -> None:
    (tmp_path / "run").write_text(lines)
    assert read_scores(tmp_path / "run") == {"q 1": {"d 1": 2.0}}


def test_a_header_of_other_names_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("frage\tQ0\tdokument\trang\tpunkte\tname\nq\tQ0\td\t1\t2\tx\n")
    with pytest.raises(EvaluationError, match=r"run:1: .*query-id.*corpus-id.*score"):
        read_run(tmp_path / "run")


@pytest.mark.parametrize(
    "lines", ["qid,docid,score\n", "q1,Q0,d1,1,3.5,x\n", "q1, Q0, d1, 1, 3.5, x\n", "q1;Q0;d1;1;3.5;x\n"]
)
def test_a_file_with_commas_is_told_that_tabs_separate(tmp_path: Path, lines: str) -> None:
    (tmp_path / "run").write_text(lines)
    with pytest.raises(EvaluationError, match=r"run:1: .*commas"):
        read_run(tmp_path / "run")


def test_ids_of_other_tools_are_read_as_they_are_unless_the_line_names_them_encoded(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("q%201 Q0 d%201 1 2 x\nq%201 percent-encoded d%201 1 2 x\n")
    assert read_run(tmp_path / "run") == {"q%201": ("d%201",), "q 1": ("d 1",)}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_byte_order_mark_is_no_part_of_the_first_querys_id(tmp_path: Path, end: str) -> None:
    lines = f"q1 Q0 a 1 2 x{end}q2 Q0 b 1 2 x{end}"
    (tmp_path / "run").write_bytes(b"\xef\xbb\xbf" + lines.encode())
    assert read_run(tmp_path / "run") == {"q1": ("a",), "q2": ("b",)}


def test_ids_equal_those_of_a_dataset_whatever_stands_around_them(tmp_path: Path) -> None:
    (tmp_path / "run").write_text('"q 1"\tQ0\t d1 \t1\t2\tx\n')
    assert read_run(tmp_path / "run") == {"q 1": ("d1",)}


def test_a_compressed_file_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "run.gz").write_bytes(gzip.compress(b"q1 Q0 a 1 2 x\n"))
    assert read_run(tmp_path / "run.gz") == {"q1": ("a",)}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("run", b"q Q0 \xff 1 2 x\n"),
        ("run.gz", b"q Q0 a 1 2 x\n"),
        ("run.gz", gzip.compress(b"q Q0 a 1 2 x\n", mtime=0)[:-9]),
    ],
    ids=["not UTF-8", "not compressed", "cut off"],
)
def test_a_file_that_cannot_be_read_is_said_in_a_sentence(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(EvaluationError, match=f"{name}(:1)?: not "):
        read_run(tmp_path / name)


@pytest.mark.parametrize("name", ["nowhere", "."])
def test_a_path_that_is_no_file_is_said_in_a_sentence(tmp_path: Path, name: str) -> None:
    with pytest.raises(EvaluationError, match=r"(no such file|Is a directory)$"):
        read_run(tmp_path / name)


@pytest.mark.parametrize(
    "line",
    [
        "q Q0 a 1 2.0",
        "q Q0 a 1 high x",
        "q Q0 a 1 nan x",
        "q Q0 a 1 inf x",
        "q Q0 a 1 1e999 x",
        "q Q0 a 1 1_0 x",
        "q\tQ0\t\t1\t1\tx",
        "q Q0 a 1 1 x\nq Q0 a 2 0 x",
    ],
)
def test_a_line_that_is_none_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "run").write_text(line + "\n")
    with pytest.raises(EvaluationError, match=r"run:[12]: "):
        read_run(tmp_path / "run")
