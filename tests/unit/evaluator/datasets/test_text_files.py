"""Every text file of a user is read as the encoding and packing of its content ask, or refused by their name."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from evaluator.datasets.judgments import read_judgments
from evaluator.datasets.reader import read_dataset
from evaluator.datasets.text_files import HashedLines
from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import read_experiment
from evaluator.runs.trec_runs import read_run

CORPUS = "".join(json.dumps({"_id": name, "text": f"a bell {name}"}) + "\n" for name in ("d1", "d2"))
QUERIES = '{"_id": "q1", "text": "bell"}\n'
TOPICS = "<top>\n<num> Number: q1\n<title> bell\n</top>\n"
QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t1\n"


def dataset(path: Path) -> object:
    """Reads a collection one of whose files is `path`; the others are written beside it."""
    directory = path.parent.parent if path.parent.name == "qrels" else path.parent
    (directory / "qrels").mkdir(exist_ok=True)
    for name, text in {"corpus.jsonl": CORPUS, "queries.jsonl": QUERIES, "qrels/test.tsv": QRELS}.items():
        if name != str(path.relative_to(directory)) and not (path.stem == "topics" and name == "queries.jsonl"):
            (directory / name).write_text(text)
    read = read_dataset(directory)
    return read.queries, read.judgments, list(read.documents())


def judgments(path: Path) -> object:
    return read_judgments(path).grades


# Name of the file, content, reader.
READERS: dict[str, tuple[str, str, Callable[[Path], object]]] = {
    "corpus": ("shop/corpus.jsonl", CORPUS, dataset),
    "queries": ("shop/queries.jsonl", QUERIES, dataset),
    "topics": ("shop/topics.txt", TOPICS, dataset),
    "judgments": ("shop/qrels/test.tsv", QRELS, dataset),
    "run": ("arm.run", "q1 Q0 d1 1 2 x\nq1 Q0 d2 2 1 x\n", read_run),
    "experiment": ("my.yaml", "name: my\ndataset: shop\npipelines: [bm25]\n", read_experiment),
}


def written(tmp_path: Path, name: str, content: bytes) -> Path:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("how", ["BOM, CRLF and gzip", "CRLF"])
def test_a_byte_order_mark_windows_line_ends_and_gzip_change_nothing(tmp_path: Path, reader: str, how: str) -> None:
    name, text, read = READERS[reader]
    expected = read(written(tmp_path / "plain", name, text.encode()))
    content = text.replace("\n", "\r\n").encode() if "CRLF" in how else text.encode()
    content = b"\xef\xbb\xbf" + content if "BOM" in how else content
    content_read = read(written(tmp_path / "odd", name, gzip.compress(content) if "gzip" in how else content))
    assert content_read == expected


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_utf16_is_refused_by_name(tmp_path: Path, reader: str, encoding: str) -> None:
    name, text, read = READERS[reader]
    path = written(tmp_path, name, text.encode(encoding))
    with pytest.raises(EvaluationError, match=rf"{path.name}: not UTF-8 but UTF-{encoding[4:6]}"):
        read(path)


@pytest.mark.parametrize("reader", READERS)
def test_a_character_of_latin_1_is_refused_with_file_and_line(tmp_path: Path, reader: str) -> None:
    name, text, read = READERS[reader]
    path = written(tmp_path, name, text.encode() + b"\xe9\n")
    line = text.count("\n") + 1
    with pytest.raises(EvaluationError, match=rf"{path.name}(:{line}: not UTF-8|: not UTF-8 in line {line}\b)"):
        read(path)


def test_a_workbook_and_a_name_that_promises_gzip_are_refused_by_name(tmp_path: Path) -> None:
    for name, content, said in (
        ("a.tsv", b"PK\x03\x04\x14\x00\x06\x00", r"a\.tsv: "),
        ("a.tsv.gz", QRELS.encode(), "gzip"),
    ):
        with pytest.raises(EvaluationError, match=said):
            judgments(written(tmp_path, name, content))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_numbered_whatever_ends_them(tmp_path: Path, end: str) -> None:
    path = written(tmp_path, "lines", f"a{end}{end}b".encode())
    assert list(HashedLines(path).texts()) == [(1, "a"), (2, ""), (3, "b")]
