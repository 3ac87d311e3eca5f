from pathlib import Path

import pytest

from evaluator.errors import EvaluationError
from evaluator.load.sending.trace import read_trace


def trace(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "trace.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("when,what\n", "time, query and pipeline"),
        ("time,query,pipeline\n", "no requests"),
        ("time,query,pipeline\n1,q1\n", "trace.csv:2: columns: 2"),
        ("time,query,pipeline\nsoon,q1,bm25\n", "trace.csv:2: 'soon'"),
        ("time,query,pipeline\nnan,q1,bm25\n", "trace.csv:2: 'nan'"),
        ("time,query,pipeline\n1,q9,bm25\n", "trace.csv:2: 'q9'"),
        ("time,query,pipeline\n1,q1,dense\n", "trace.csv:2: .*'dense'.*bm25"),
    ],
)
def test_a_damaged_trace_names_its_line(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match=said):
        read_trace(trace(tmp_path, text), {"q1"}, ["bm25"])


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_spreadsheets_trace_is_read_by_the_names_of_its_columns(tmp_path: Path, end: str, encoding: str) -> None:
    path = tmp_path / "trace.csv"
    lines = ["Pipeline,note,time,query", "bm25,first,100,q1", "bm25,,101,q1", ",,,", ""]
    path.write_text(end.join(lines), encoding=encoding, newline="")
    found = read_trace(path, {"q1"}, ["bm25"])
    assert [(request.at_s, request.pipeline, request.query) for request in found] == [
        (0, "bm25", "q1"),
        (1, "bm25", "q1"),
    ]
    path.write_text(end.join(["time,query,pipeline", "1,q1,bm25", "soon,q1,bm25"]), encoding=encoding, newline="")
    with pytest.raises(EvaluationError, match=r"trace\.csv:3: 'soon'"):
        read_trace(path, {"q1"}, ["bm25"])


def test_what_is_no_csv_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match=r"trace\.csv:2: "):
        read_trace(trace(tmp_path, f"time,query,pipeline\n1,{'q' * 200_000},bm25\n"), {"q1"}, ["bm25"])


def test_a_trace_begins_at_its_first_request(tmp_path: Path) -> None:
    found = read_trace(trace(tmp_path, "time,query,pipeline\n102.5,q1,bm25\n100,q1,bm25\n"), {"q1"}, ["bm25"])
    assert [request.at_s for request in found] == [0, 2.5]
