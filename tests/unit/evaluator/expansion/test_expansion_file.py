"""A file of expansions is continued where it stopped, and belongs to one corpus and one model."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from evaluator.errors import DatasetError, EvaluationError
from evaluator.expansion.expansion_file import batches_of, continued_file, declared_models, expanded
from services.contracts.documents import Document
from services.contracts.expansions import Expansions, WordFrequencies

MODEL, OTHER = "toy@0123456789ab", "toy@ba9876543210"
CORPUS = [Document(id=f"d{number}", text=f"oil {number}") for number in range(10)]
BATCH = 4


def made(document: Document, model: str = MODEL) -> Expansions:
    return Expansions(deepct=WordFrequencies(model=model, words=f"{document.id}|7"))


def write(path: Path, corpus: Sequence[Document] = CORPUS, model: str = MODEL) -> int:
    """Returns how many documents were done before."""
    with continued_file(path, corpus, {"deepct": model}, BATCH) as file:
        for batch in batches_of(iter(corpus[file.done :]), BATCH):
            file.write((document.id, made(document, model)) for document in batch)
        return file.done


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write(tmp_path / "deepct.jsonl")
    return tmp_path / "deepct.jsonl"


@pytest.mark.parametrize("lines", range(11))
@pytest.mark.parametrize("torn", [0, 5])
def test_a_file_cut_anywhere_is_continued_to_the_same_bytes_by_whole_batches(path: Path, lines: int, torn: int) -> None:
    whole = path.read_bytes()
    kept = whole.splitlines(keepends=True)
    path.write_bytes(b"".join(kept[:lines]) + b"".join(kept[lines : lines + 1])[:torn])
    assert write(path) == (10 if lines == 10 else lines // BATCH * BATCH)
    assert path.read_bytes() == whole


def test_a_file_of_another_model_or_corpus_is_not_continued(path: Path) -> None:
    whole = path.read_bytes()
    with pytest.raises(EvaluationError, match=f"{MODEL}.*{OTHER}.*--out"):
        write(path, model=OTHER)
    with pytest.raises(EvaluationError, match=r"'d0'.*'d9'"):
        write(path, CORPUS[::-1])
    with pytest.raises(EvaluationError, match="would be of nothing"):
        write(path, CORPUS[:4])
    assert path.read_bytes() == whole


def test_documents_get_the_expansions_of_all_files(path: Path, tmp_path: Path) -> None:
    queries = tmp_path / "doc2query.jsonl"
    lines = [{"_id": document.id, "doc2query": {"model": OTHER, "queries": [document.text]}} for document in CORPUS]
    queries.write_text("\n".join(map(json.dumps, lines)))
    assert declared_models([path, queries]) == {"deepct": MODEL, "doc2query": OTHER}
    documents = list(expanded(CORPUS, [path, queries]))
    assert [document.model_copy(update={"expansions": None}) for document in documents] == CORPUS
    for document in documents:
        assert document.expansions is not None
        assert document.expansions.models == {"deepct": MODEL, "doc2query": OTHER}
        assert document.expansions.deepct == made(document).deepct


def test_a_file_of_another_corpus_is_refused_where_it_differs(path: Path) -> None:
    with pytest.raises(DatasetError, match=r"jsonl:1: 'd0' where the corpus has 'd1'"):
        list(expanded(CORPUS[1:], [path]))
    with pytest.raises(DatasetError, match="jsonl:4: the corpus"):
        list(expanded(CORPUS[:3], [path]))
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:9]))
    with pytest.raises(DatasetError, match="ends where the corpus has 'd9'"):
        list(expanded(CORPUS, [path]))


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('{"_id": "d9", "deepct": {"model": "toy@ba9876543210", "words": ""}}', "toy@ba9876543210"),
        ('{"_id": "d9"}', "doc2query or deepct"),
        ('{"_id": "d9", "deepct": {"model": "toy@0123456789ab", "words": "oil"}}', "deepct.words"),
        ('{"_id": "d9", "queries": ["a"]}', "queries"),
    ],
)
def test_a_faulty_line_is_named_with_its_place(path: Path, line: str, named: str) -> None:
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:9]) + line)
    with pytest.raises(DatasetError, match=rf"jsonl:10: .*{named}"):
        list(expanded(CORPUS, [path]))


def test_two_files_of_one_method_or_an_empty_one_are_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="deepct"):
        declared_models([path, path])
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(DatasetError, match="no line"):
        declared_models([tmp_path / "empty.jsonl"])
