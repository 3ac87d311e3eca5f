"""A BEIR directory is read whole, and what is wrong with it is said with file and line."""

from pathlib import Path

import pytest

from evaluator.datasets.reader import read_dataset
from evaluator.errors import DatasetError
from tests.support.gateway_stub import write_shop
from tests.support.processes import ROOT

DATASETS = ROOT.parent / "shared" / "datasets"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return write_shop(tmp_path / "shop")


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")


def test_everything_that_reading_decided_is_counted(shop: Path) -> None:
    counts = read_dataset(shop).counts
    assert counts.model_dump() == {
        "documents": 6,
        "queries": 5,
        "judged_queries": 4,
        "queries_without_judgments": 1,
        "judged_without_positives": 1,
        "judgments": 6,
        "judged_documents_missing": 1,
        "negative_judgments": 1,
        "duplicate_judgments": 0,
        "self_retrieved": 1,
        "query_characters_stripped": 0,
        "document_characters_stripped": 1,
        "metadata_values_dropped": 1,
        "metadata_fields_undeclared": (),
        "fields_not_read": (),
    }


def test_fields_that_no_beir_corpus_has_are_named(shop: Path) -> None:
    append(shop / "corpus.jsonl", '{"_id": "n1", "title": "bell", "body": "rings", "url": "x"}\n')
    assert read_dataset(shop).counts.fields_not_read == ("body", "url")
    (shop / "corpus.jsonl").write_text('{"_id": "d1", "title": "bell", "body": "rings"}\n')
    (shop / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    with pytest.raises(DatasetError, match=r"corpus.jsonl:1: body: not read; a BEIR corpus has _id, title, text, meta"):
        read_dataset(shop, strict=True)


def test_a_corpus_in_which_nothing_can_be_searched_is_refused_with_the_fields_that_it_has(shop: Path) -> None:
    (shop / "corpus.jsonl").write_text('{"_id": "d1", "body": "a"}\n{"_id": "d2", "abstract": "b"}\n')
    with pytest.raises(DatasetError, match=r"no document has a title or a text; besides, there are: abstract, body$"):
        read_dataset(shop)


def test_grades_may_be_written_as_whole_floats_and_negative_ones_count_as_unjudged(shop: Path) -> None:
    assert read_dataset(shop).judgments == {"q1": {"d1": 2, "d2": 1}, "q2": {"d4": 1}, "q3": {"d1": 0},
                                            "q4": {"d3": 1, "gone": 1}}  # fmt: skip


def test_a_document_under_its_own_query_id_is_excluded_only_if_the_text_is_the_same_too(shop: Path) -> None:
    assert read_dataset(shop).self_retrieved == {"q4"}
    append(shop / "corpus.jsonl", '{"_id": "q1", "title": "red", "text": "bell"}\n{"_id": "q2", "text": "a chain"}\n')
    assert read_dataset(shop).self_retrieved == {"q1", "q4"}


def test_a_schema_is_inferred_where_the_values_agree(shop: Path) -> None:
    assert read_dataset(shop).schema == {"year": "number"}
    append(
        shop / "corpus.jsonl",
        '{"_id": "x", "metadata": {"year": "soon", "day": "2020-02-29", "tags": ["a"], "maker": "2020-02-29"}}\n'
        '{"_id": "y", "metadata": {"maker": "someone", "none": null}}\n',
    )
    dataset = read_dataset(shop)
    assert dataset.schema == {"day": "date", "tags": "keyword", "maker": "keyword"}
    assert dataset.counts.metadata_fields_undeclared == ("year",)


@pytest.mark.parametrize(
    "lines",
    ["q1\td1\t1\n", "query-id\tcorpus-id\tscore\nq1\td1\t1\n", "q1\t0\td1\t1\n", "q1 0 d1 1\n", '"q1"\t"d1"\t1.0\n',
     "\ufeffquery-id\tcorpus-id\tscore\r\nq1\td1\t1\r\n"],
    ids=["no header", "header", "four columns", "spaces", "quoted", "BOM and CRLF"],
)  # fmt: skip
def test_judgments_are_read_however_they_were_written(shop: Path, lines: str) -> None:
    (shop / "qrels" / "test.tsv").write_text(lines, encoding="utf-8", newline="")
    assert read_dataset(shop).judgments == {"q1": {"d1": 1}}


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("corpus.jsonl", "{broken\n", r"corpus\.jsonl:7: not JSON"),
        ("corpus.jsonl", "[1]\n", r"corpus\.jsonl:7: not a JSON object"),
        ("corpus.jsonl", '{"text": "no id"}\n', r"corpus\.jsonl:7: _id"),
        ("corpus.jsonl", '{"_id": "d1"}\n', r"corpus\.jsonl:7: the id 'd1' stood above"),
        ("corpus.jsonl", '{"_id": "a\\tb"}\n', r"corpus\.jsonl:7: _id: a tab"),
        ("corpus.jsonl", '{"_id": "x", "text": 5}\n', r"corpus\.jsonl:7: text"),
        ("queries.jsonl", '{"_id": "q1", "text": "again"}\n', r"queries\.jsonl:6: the id 'q1' stood above"),
        ("queries.jsonl", '{"_id": "q9"}\n', r"queries\.jsonl:6: text"),
        ("qrels/test.tsv", "q1\td1\n", r"test\.tsv:9: 2 columns"),
        ("qrels/test.tsv", "q1\td3\tgood\n", r"test\.tsv:9: the grade 'good'"),
        ("qrels/test.tsv", "q1\td3\t0.5\n", r"test\.tsv:9: the grade '0.5'"),
        ("qrels/test.tsv", "q1\td1\t1\n", r"test\.tsv:9: q1 d1 was judged 2 above"),
        ("qrels/test.tsv", "q77\td1\t1\n", r"test\.tsv: judged, but not in queries\.jsonl: q77"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(shop: Path, file: str, text: str, message: str) -> None:
    append(shop / file, text)
    with pytest.raises(DatasetError, match=message):
        read_dataset(shop)


def test_a_missing_split_names_those_that_are_there(shop: Path) -> None:
    with pytest.raises(DatasetError, match=r"dev\.tsv: no such file; splits there: test"):
        read_dataset(shop, "dev")


def test_strict_refuses_what_is_counted_otherwise(shop: Path) -> None:
    with pytest.raises(DatasetError, match=r"test\.tsv:5: a negative judgment"):
        read_dataset(shop, strict=True)


@pytest.mark.skipif(not DATASETS.is_dir(), reason="../shared/datasets is not here")
@pytest.mark.parametrize(
    ("name", "documents", "judged", "judgments"),
    [
        ("scifact", 5183, 300, 339),
        ("nfcorpus", 3633, 323, 12334),
        ("cranfield", 1400, 225, 1837),
        ("cacm", 3204, 52, 796),
    ],
)
def test_public_collections_are_read_whole_and_exclude_no_document_by_chance(
    name: str, documents: int, judged: int, judgments: int
) -> None:
    counts = read_dataset(DATASETS / name).counts
    assert (counts.documents, counts.judged_queries, counts.judgments) == (documents, judged, judgments)
    assert counts.self_retrieved == 0
