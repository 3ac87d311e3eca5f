from pathlib import Path

import pytest

from evaluator.errors import EvaluationError
from evaluator.load.trace import read_trace


def trace(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "trace.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("when,what\n", "the first line of a trace is time,query,pipeline"),
        ("time,query,pipeline\n", "the trace has no requests"),
        ("time,query,pipeline\n1,q1\n", "trace.csv:2: a line of a trace is"),
        ("time,query,pipeline\nsoon,q1,bm25\n", "trace.csv:2: 'soon' is no number of seconds"),
        ("time,query,pipeline\nnan,q1,bm25\n", "trace.csv:2: 'nan' is no number of seconds"),
        ("time,query,pipeline\n1,q9,bm25\n", "trace.csv:2: 'q9' is no id of a judged query of the dataset"),
        ("time,query,pipeline\n1,q1,dense\n", "trace.csv:2: the experiment has no pipeline 'dense'; there are bm25"),
    ],
)
def test_a_damaged_trace_names_its_line(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match=said):
        read_trace(trace(tmp_path, text), {"q1"}, ["bm25"])


def test_a_trace_begins_at_its_first_request(tmp_path: Path) -> None:
    found = read_trace(trace(tmp_path, "time,query,pipeline\n102.5,q1,bm25\n100,q1,bm25\n"), {"q1"}, ["bm25"])
    assert [request.at_s for request in found] == [0, 2.5]
