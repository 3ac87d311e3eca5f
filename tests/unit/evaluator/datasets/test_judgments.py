"""No judgment is lost without a word, however its line, its grade or its ids are written."""

import gzip
from pathlib import Path

import pytest

from evaluator.datasets.judgments import read_judgments
from evaluator.datasets.reader import read_dataset
from evaluator.errors import DatasetError


def judged(shop: Path, lines: str, name: str = "test.tsv") -> dict[str, dict[str, int]]:
    (shop / "qrels" / "test.tsv").unlink()
    (shop / "qrels" / name).write_text(lines, encoding="utf-8", newline="")
    return {query: dict(grades) for query, grades in read_dataset(shop).judgments.items()}


@pytest.mark.parametrize(
    "lines",
    ["q1\td1\t1\n", "query-id\tcorpus-id\tscore\nq1\td1\t1\n", "q1\t0\td1\t1\n", "q1 0 d1 1\n", '"q1"\t"d1"\t1.0\n',
     "\ufeffquery-id\tcorpus-id\tscore\r\nq1\td1\t1\r\n", '"query-id"\t"corpus-id"\t"score"\nq1\td1\t1\n',
     "\n\nquery-id\tcorpus-id\tscore\nq1\td1\t1", "q1\td1\t1\rq1\td1\t1\r", " q1 \t d1 \t 1 \n"],
    ids=["no header", "header", "four columns", "spaces", "quoted", "BOM and CRLF", "quoted header",
         "blank lines first", "carriage returns alone", "padded"],
)  # fmt: skip
def test_judgments_are_read_however_they_were_written(shop: Path, lines: str) -> None:
    assert judged(shop, lines) == {"q1": {"d1": 1}}


@pytest.mark.parametrize(
    "lines",
    ["corpus-id\tquery-id\tscore\nd1\tq1\t1\n", "score\tcorpus-id\tquery-id\n1\td1\tq1\n",
     "query-id\tcorpus-id\tscore\tjudge\tnote\nq1\td1\t1\teva\t2 of 3\n", "docid qid rel\nd1 q1 1\n",
     "judge\tdoc_id\tQuery_ID\tRelevance\n7\td1\tq1\t1\n", '"corpus-id"\t"query-id"\t"score"\n"d1"\t"q1"\t1\n'],
    ids=["documents first", "grades first", "five columns", "other names", "underscores and capitals", "quoted"],
)  # fmt: skip
def test_names_in_a_header_decide_and_not_places(shop: Path, lines: str) -> None:
    assert judged(shop, lines) == {"q1": {"d1": 1}}


def test_ids_of_other_tools_are_read_as_they_are_unless_the_line_names_them_encoded(tmp_path: Path) -> None:
    (tmp_path / "a.qrels").write_text("q%201 0 d%201 1\nq%201 percent-encoded d%201 1\n")
    assert read_judgments(tmp_path / "a.qrels").grades == {"q%201": {"d%201": 1}, "q 1": {"d 1": 1}}
    for damaged in ("%0A", "%FF"):
        (tmp_path / "a.qrels").write_text(f"q percent-encoded d{damaged} 1\n")
        with pytest.raises(DatasetError, match=r"a\.qrels:1: 'd%"):
            read_judgments(tmp_path / "a.qrels")


def test_a_quote_that_is_closed_lines_later_swallows_no_line_between(shop: Path) -> None:
    lines = 'q1\t"d1\t1\nq2\td4\t1\nq3\td1"\t1\n'
    (shop / "qrels" / "test.tsv").write_text(lines)
    dataset = read_dataset(shop)
    assert dataset.judgments == {"q1": {'"d1': 1}, "q2": {"d4": 1}, "q3": {'d1"': 1}}
    assert dataset.counts.positive_judgments_missing == 2
    assert dataset.counts.warnings == (
        "dataset: 2 of 3 positive judgments name documents that the corpus lacks: no pipeline can find them, and they "
        "stay in the denominators",
    )


@pytest.mark.parametrize("identity", ['d "9"', '"d" 9', '"d9"', " d9 ", 'd""9', '"d" and "9"', "\u00a0d9", "d  9"])
@pytest.mark.parametrize("written", ["as it is", "as a CSV cell", "padded"])
def test_ids_with_quotes_and_spaces_are_those_of_the_corpus(shop: Path, identity: str, written: str) -> None:
    escaped = identity.replace('"', '\\"')
    with (shop / "corpus.jsonl").open("a", encoding="utf-8") as corpus:
        corpus.write(f'{{"_id": "{escaped}", "text": "a lock"}}\n')
    doubled = identity.replace('"', '""')
    cell = {"as it is": identity, "as a CSV cell": f'"{doubled}"', "padded": f"  {identity}  "}[written]
    (shop / "qrels" / "test.tsv").write_text(f"q1\t{cell}\t1\n", encoding="utf-8")
    dataset = read_dataset(shop, strict=False)
    assert dataset.counts.judged_documents_missing == 0
    ids = {document.id for document in dataset.documents()}
    assert set(dataset.judgments["q1"]) <= ids


@pytest.mark.parametrize("lines", ["q1\td1\t-1\nq1\td1\t1\n", "q1\td1\t1\nq1\td1\t-1\n", "q1\td1\t0\nq1\td1\t-1\n",
                                   'q1\td1\t1\nq1\t"d1"\t2\n'])  # fmt: skip
def test_a_pair_that_was_judged_in_two_ways_is_a_contradiction_whatever_its_signs(shop: Path, lines: str) -> None:
    with pytest.raises(DatasetError, match=r"test\.tsv:2: q1 d1 "):
        judged(shop, lines)


def test_negative_judgments_are_counted_once_each_and_repeated_ones_as_duplicates(shop: Path) -> None:
    (shop / "qrels" / "test.tsv").write_text("q1\td1\t-1\nq1\td1\t-1\nq1\td2\t1\nq1\td2\t1.0\n")
    dataset = read_dataset(shop)
    assert dataset.judgments == {"q1": {"d2": 1}}
    assert (dataset.counts.negative_judgments, dataset.counts.duplicate_judgments) == (1, 2)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("test.jsonl", '{"query-id": "q1", "corpus-id": "d1", "score": 1}\n'
                       '{"query-id": "q1", "corpus-id": "d2", "score": 0}\n'
                       '{"query-id": "q2", "corpus-id": "d4", "score": 2, "split": "test"}\n'),
        ("test.jsonl", '{"qid": "q1", "docno": "d1", "rel": 1}\n{"docno": "d2", "rel": 0, "qid": "q1"}\n'
                       '{"qid": "q2", "docno": "d4", "rel": 2}\n'),
        ("test.qrels", "q1 0 d1 1\nq1 0 d2 0\nq2 0 d4 2\n"),
        ("test.txt", "q1\tQ0\td1\t1\nq1\tQ0\td2\t0\nq2\tQ0\td4\t2\n"),
    ],
)  # fmt: skip
def test_judgments_may_be_lines_of_json_or_trecs(shop: Path, name: str, lines: str) -> None:
    assert judged(shop, lines, name) == {"q1": {"d1": 1, "d2": 0}, "q2": {"d4": 2}}


@pytest.mark.parametrize(
    ("name", "lines", "message"),
    [
        ("test.jsonl", '{"\\ud800": 1}', r"test\.jsonl:1: .*\\ud800"),
        ("test.jsonl", "{", r"test\.jsonl:1: not JSON"),
        ("test.jsonl", '{"query-id": "\\ud800", "corpus-id": "d1", "score": 1}', r"test\.jsonl:1: .*lone surrogate"),
        ("test.jsonl", '{"query-id": "q1", "corpus-id": "d1"}', r"test\.jsonl:1: .*corpus-id, query-id, score"),
        ("test.jsonl", '{"query-id": "q1", "corpus-id": "d1", "score": true}', r"test\.jsonl:1: the grade 'True'"),
        (
            "test.jsonl",
            '{"query-id": "q1", "corpus-id": null, "score": 1}',
            r"test\.jsonl:1: corpus-id: a string is needed",
        ),
        ("test.json", '{"q1": {"d1": 1}}', r"test\.json: one JSON object is not read; .*test\.tsv"),
        ("test.jsonl", "[]", r"test\.jsonl:1: not a JSON object"),
        ("test.qrels", "q1 0 d1 1\nq1 d1\n", r"test\.qrels:2: columns: 2"),
        ("test.tsv", "q1\t\t1\n", r"test\.tsv:1: an empty id"),
        ("test.tsv", 'q1\t""\t1\n', r"test\.tsv:1: an empty id"),
        ("test.tsv", "", r"test\.tsv: no judgment in the whole file"),
        ("test.tsv", "q1\td1\t0.5\nq1\td2\t1\n", r"test\.tsv:1: the grade '0\.5'"),  # no header
        ("test.tsv", "unknown 0 d1 l\nq1\td1\t1\n", r"test\.tsv:1: the grade 'l'"),
        ("test.tsv", "q1\td1\t٣\n", r"test\.tsv:1: the grade '٣'"),
        ("test.tsv", "q1\td1\t1000000000000\n", r"test\.tsv:1: the grade '1000000000000' .*at most 9 digits"),
        ("test.tsv", "q1\td1\t1\nquery-id\tcorpus-id\tscore\n", r"test\.tsv:2: the grade 'score'"),
        ("test.tsv", "query-id\tcorpus-id\tscore\nq1\t0\td2\t1\n", r"test\.tsv:2: columns: 4"),
        ("test.tsv", "query-id\tcorpus-id\tstars\nq1\td1\t1\n", r"test\.tsv:1: .*query-id.*corpus-id.*score"),
        ("test.tsv", "a\tb\tc\td\te\nq1\td1\t1\t1\t1\n", r"test\.tsv:1: .*query-id.*corpus-id.*score"),
        ("test.tsv", "q1,d1,1\n", r"test\.tsv:1: .*commas"),
        ("test.tsv", "query-id, corpus-id, score\n", r"test\.tsv:1: .*commas"),
        ("test.tsv", "q1;d1;1\n", r"test\.tsv:1: .*commas"),
        ("test.tsv", "q1\td1\t0\n", r"test\.tsv: no judgment above 0"),
        ("test.tsv", "q1\tD1\t1\nq1\td1\t0\nq2\tD2\t1\n", "'D1'"),
    ],
)
def test_what_is_wrong_with_judgments_is_said_with_their_place(shop: Path, name: str, lines: str, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        judged(shop, lines, name)


def test_judgments_in_two_files_are_refused(shop: Path) -> None:
    (shop / "qrels" / "test.tsv.gz").write_bytes(gzip.compress(b"q1\td1\t1\n"))
    with pytest.raises(DatasetError, match=r"test\.tsv, test\.tsv\.gz"):
        read_dataset(shop)
