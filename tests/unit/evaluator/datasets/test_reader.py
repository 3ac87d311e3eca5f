"""A BEIR directory is read whole, and what is wrong with it is said with file and line."""

import gzip
import hashlib
import json
from pathlib import Path

import pytest

from evaluator.datasets.corpus import MOST_DIGITS, MOST_DOCUMENT_BYTES, MOST_DOCUMENT_VALUES, MOST_METADATA_KEYS
from evaluator.datasets.reader import read_dataset
from evaluator.datasets.text_files import MOST_LINE_BYTES
from evaluator.errors import DatasetError
from services.chassis.requests import json_route
from services.chassis.settings.service_settings import ServiceSettings
from services.contracts.collections import CollectionDeclaration
from tests.support.processes import ROOT

DATASETS = ROOT.parent / "shared" / "datasets"


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")


def test_everything_that_reading_decided_is_counted_and_strict_refuses_it(shop: Path) -> None:
    dataset = read_dataset(shop)
    assert dataset.judgments == {
        "q1": {"d1": 2, "d2": 1}, "q2": {"d4": 1}, "q3": {"d1": 0}, "q4": {"d3": 1, "gone": 0},
    }  # fmt: skip
    with pytest.raises(DatasetError, match=r"test\.tsv:5: .*negative"):
        read_dataset(shop, strict=True)
    with pytest.raises(DatasetError, match=r"dev\.tsv: .*test"):
        read_dataset(shop, "dev")
    assert {name: count for name, count in dataset.counts.model_dump().items() if count} == {
        "documents": 6,
        "queries": 5,
        "judged_queries": 4,
        "queries_without_judgments": 1,
        "judged_without_positives": 1,
        "judgments": 6,
        "judged_documents_missing": 1,
        "negative_judgments": 1,
        "self_retrieved": 1,
        "document_characters_stripped": 1,
        "metadata_values_dropped": 1,
        "positive_judgments": 4,
    }


def test_fields_that_no_beir_corpus_has_are_named(shop: Path) -> None:
    append(shop / "corpus.jsonl", '{"_id": "n1", "title": "bell", "body": "rings", "url": "x"}\n')
    assert read_dataset(shop).counts.fields_not_read == ("body", "url")
    (shop / "corpus.jsonl").write_text('{"_id": "d1", "title": "bell", "body": "rings"}\n')
    (shop / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    with pytest.raises(DatasetError, match=r"corpus\.jsonl:1: body: .*_id, title, text, meta"):
        read_dataset(shop, strict=True)


def test_a_corpus_in_which_nothing_can_be_searched_is_refused_with_the_fields_that_it_has(shop: Path) -> None:
    for corpus, fields in (
        ('{"_id": "d1", "body": "a"}\n{"_id": "d2", "abstract": "b"}\n', "abstract, body"),
        ('{"_id": "d1", "title": "bell", "Text": "rings"}\n', "Text"),  # even if it has titles
    ):
        (shop / "corpus.jsonl").write_text(corpus)
        with pytest.raises(DatasetError, match=rf"corpus\.jsonl: .*{fields}$"):
            read_dataset(shop)


def test_documents_without_any_text_are_counted_and_many_of_them_are_a_warning(shop: Path) -> None:
    assert read_dataset(shop).counts.warnings == ()
    append(shop / "corpus.jsonl", '{"_id": "n1", "contents": "rings"}\n{"_id": "n2", "title": " ", "text": null}\n')
    counts = read_dataset(shop).counts
    assert (counts.documents_without_text, counts.fields_not_read) == (2, ("contents",))
    assert counts.warnings[0] == "dataset: 2 of 8 documents have neither a title nor a text: nothing finds them"


def test_documents_whose_text_stands_under_another_name_are_a_warning_above_one_percent(shop: Path) -> None:
    append(shop / "corpus.jsonl", "".join(f'{{"_id": "n{number}", "text": "bell"}}\n' for number in range(93)))
    append(shop / "corpus.jsonl", '{"_id": "m1", "title": "bell", "contents": "rings"}\n')
    append(shop / "corpus.jsonl", '{"_id": "m2", "text": "", "abstract": " ", "body": null}\n')
    counts = read_dataset(shop).counts
    assert (counts.documents, counts.texts_elsewhere, counts.warnings) == (101, 1, ())
    append(shop / "corpus.jsonl", '{"_id": "m3", "title": "bell", "text": " ", "Body": "rings"}\n')
    counts = read_dataset(shop).counts
    assert (counts.texts_elsewhere, counts.documents_without_text) == (2, 1)
    assert counts.warnings == ("dataset: 2 of 102 documents have no `text`, but one under another name, which is not "
                               "read; rename it to `text`",)  # fmt: skip


def test_missing_positives_are_a_warning_above_one_percent_and_not_below(shop: Path) -> None:
    with (shop / "corpus.jsonl").open("a") as corpus, (shop / "qrels" / "test.tsv").open("a") as qrels:
        for number in range(95):
            corpus.write(f'{{"_id": "n{number}", "text": "bell"}}\n')
            qrels.write(f"q1\tn{number}\t1\n")
        qrels.write("q1\tlost1\t1\n")
    counts = read_dataset(shop).counts
    assert (counts.positive_judgments, counts.positive_judgments_missing, counts.warnings) == (100, 1, ())
    append(shop / "qrels" / "test.tsv", "q1\tlost2\t1\n")
    assert read_dataset(shop).counts.warnings[0].startswith("dataset: 2 of 101 positive judgments name documents")


def test_a_document_too_long_to_send_is_found_while_reading(shop: Path) -> None:
    text = "ä" * (MOST_DOCUMENT_BYTES // 2 - 20)
    append(shop / "corpus.jsonl", json.dumps({"_id": "fits", "text": text}) + "\n")
    assert read_dataset(shop).counts.documents == 7
    append(shop / "corpus.jsonl", json.dumps({"_id": "giant", "text": text + "x" * 40}, ensure_ascii=False) + "\n")
    with pytest.raises(
        DatasetError, match=r"corpus\.jsonl:8: document 'giant': \d+ bytes; at most 7500000 can be sent"
    ):
        read_dataset(shop)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({f"f{number}": 1 for number in range(1_001)}, "1001 metadata fields; at most 1000"),
        ({f"f{number}": ["x"] * 9_999 for number in range(10)}, "100000 metadata values; at most 90000"),
        ({"number": 10**40}, "41 characters in a whole number; at most 40"),
        ({"list": ["x"] * 10_001}, "metadata"),
    ],
)
def test_metadata_that_the_gateway_refuses_is_found_while_reading(
    shop: Path, metadata: dict[str, object], message: str
) -> None:
    append(shop / "corpus.jsonl", json.dumps({"_id": "n1", "metadata": metadata}) + "\n")
    with pytest.raises(DatasetError, match=rf"corpus\.jsonl:7: .*{message}"):
        read_dataset(shop)


def test_the_bounds_of_a_document_are_within_those_of_a_body() -> None:
    assert ServiceSettings(port=0).max_body_bytes > MOST_DOCUMENT_BYTES + 1_000
    assert json_route.MOST_VALUES > MOST_DOCUMENT_VALUES + MOST_METADATA_KEYS
    assert (json_route.MOST_KEYS, json_route.MOST_DIGITS) == (MOST_METADATA_KEYS, MOST_DIGITS)


@pytest.mark.parametrize(("file", "character"), [("corpus.jsonl", "\\ud800"), ("queries.jsonl", "\\u0000")])
def test_an_id_that_no_file_can_carry_is_a_sentence(shop: Path, file: str, character: str) -> None:
    append(shop / file, f'{{"_id": "a{character}b", "text": "x"}}\n')
    with pytest.raises(DatasetError, match=rf"{file}:\d: _id: 'a.*b' has .*control character or lone") as said:
        read_dataset(shop)
    assert str(said.value).isascii()


def test_every_file_may_be_packed_and_its_hash_is_that_of_the_packed_file(shop: Path) -> None:
    plain = read_dataset(shop)
    documents, packed = list(plain.documents()), {}
    for path in (shop / "corpus.jsonl", shop / "queries.jsonl", shop / "qrels" / "test.tsv"):
        content = gzip.compress(path.read_bytes())
        path.with_name(f"{path.name}.gz").write_bytes(content)
        packed[f"{path.name}.gz"] = hashlib.sha256(content).hexdigest()
        path.unlink()
    dataset = read_dataset(shop)
    assert (dataset.counts, dataset.judgments, dataset.queries) == (plain.counts, plain.judgments, plain.queries)
    assert dataset.hashes == packed
    assert list(dataset.documents()) == documents


def test_a_file_without_line_breaks_is_refused_before_it_fills_the_memory(shop: Path) -> None:
    with (shop / "corpus.jsonl").open("r+b") as corpus:
        corpus.truncate(MOST_LINE_BYTES * 3)  # sparse: zeros
    with pytest.raises(DatasetError, match=r"corpus\.jsonl:7: .*100,000,000 bytes"):
        read_dataset(shop)


def test_a_document_under_its_own_query_id_is_excluded_only_if_the_text_is_the_same_too(shop: Path) -> None:
    assert read_dataset(shop).self_retrieved == {"q4"}
    append(shop / "corpus.jsonl", '{"_id": "q1", "title": "red", "text": "bell"}\n{"_id": "q2", "text": "a chain"}\n')
    assert read_dataset(shop).self_retrieved == {"q1", "q4"}


def test_a_schema_is_inferred_from_the_values_and_where_they_differ_fields_are_keywords(shop: Path) -> None:
    assert read_dataset(shop).schema == {"year": "number"}
    append(
        shop / "corpus.jsonl",
        '{"_id": "x", "metadata": {"year": "soon", "day": "2020-02-29", "tags": ["a"], "maker": "2020-02-29"}}\n'
        '{"_id": "y", "metadata": {"maker": "someone", "none": null}}\n',
    )
    dataset = read_dataset(shop)
    assert dataset.schema == {"day": "date", "tags": "keyword", "maker": "keyword", "year": "keyword"}
    assert dataset.counts.metadata_fields_undeclared == ()
    assert dataset.counts.metadata_fields_mixed == ("maker", "year")


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("corpus.jsonl", "{broken\n", r"corpus\.jsonl:7: not JSON"),
        ("corpus.jsonl", "[1]\n", r"corpus\.jsonl:7: not a JSON object"),
        ("corpus.jsonl", '{"text": "no id"}\n', r"corpus\.jsonl:7: _id"),
        ("corpus.jsonl", '{"_id": "d1"}\n', r"corpus\.jsonl:7: .*'d1'"),
        ("corpus.jsonl", '{"_id": "a\\tb"}\n', r"corpus\.jsonl:7: _id: .* a tab"),
        ("corpus.jsonl", '{"_id": "x", "text": 5}\n', r"corpus\.jsonl:7: text"),
        ("corpus.jsonl", '{"_id": " "}\n', r"corpus\.jsonl:7: _id"),
        ("queries.jsonl", '{"_id": "q1", "text": "again"}\n', r"queries\.jsonl:6: .*'q1'"),
        ("queries.jsonl", '{"_id": "q9"}\n', r"queries\.jsonl:6: text"),
        ("qrels/test.tsv", "q1\td1\n", r"test\.tsv:9: columns: 2"),
        ("qrels/test.tsv", "q77\td1\t1\n", r"test\.tsv: .*queries\.jsonl: q77"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(shop: Path, file: str, text: str, message: str) -> None:
    append(shop / file, text)
    with pytest.raises(DatasetError, match=message):
        read_dataset(shop)


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


def test_of_more_fields_than_a_collection_can_declare_the_first_are_declared_and_others_named(shop: Path) -> None:
    fields = {f"field{number:04d}": number for number in range(300)}
    append(shop / "corpus.jsonl", json.dumps({"_id": "n1", "metadata": fields}) + "\n")
    dataset = read_dataset(shop)
    assert CollectionDeclaration(metadata=dict(dataset.schema)).metadata == dataset.schema
    assert len(dataset.schema) == 256
    assert len(dataset.counts.metadata_fields_undeclared) == 32


def test_ids_match_however_their_accents_are_stored_and_what_was_composed_is_counted(shop: Path) -> None:
    append(shop / "corpus.jsonl", '{"_id": "cafe\u0301", "text": "x"}\n')
    append(shop / "queries.jsonl", '{"_id": "the\u0301", "text": "tea"}\n')
    (shop / "qrels" / "test.tsv").write_text("th\u00e9\tcaf\u00e9\t1\n", encoding="utf-8")
    read = read_dataset(shop)
    assert read.judgments == {"th\u00e9": {"caf\u00e9": 1}}
    assert (read.counts.judged_documents_missing, read.counts.ids_trimmed) == (0, 2)
    with pytest.raises(DatasetError, match=r"queries\.jsonl: .*NFC"):
        read_dataset(shop, strict=True)
    append(shop / "corpus.jsonl", '{"_id": "caf\u00e9", "text": "y"}\n')
    with pytest.raises(DatasetError, match="above already"):
        read_dataset(shop)
