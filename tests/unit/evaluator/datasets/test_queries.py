"""Queries come from queries.jsonl or from TREC topics, packed or not; what is wrong with a topic is said."""

import gzip
import json
from pathlib import Path

import pytest

from evaluator.datasets.queries import read_queries
from evaluator.datasets.reader import read_dataset, read_or_recall
from evaluator.errors import DatasetError
from services.contracts.base import MOST_QUERY_CHARACTERS
from services.contracts.query import SearchRequest
from tests.support.gateway_stub import write_shop

SGML = """
<top>
<num> Number: q1
<title> red
  bell

<desc> Description:
Which bells are red?
</top>

<TOP><NUM>q2</NUM><TITLE>Topic: oil chain</TITLE></TOP>
"""
XML = """<?xml version="1.0" encoding="UTF-8"?>
<topics task="bells">
  <topic number="q1"><query>red bell</query><question>which bells are red</question></topic>
  <topic number="q2"><title>oil chain</title></topic>
</topics>
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    directory = write_shop(tmp_path / "shop")
    (directory / "queries.jsonl").unlink()
    (directory / "qrels" / "test.tsv").write_text("q1 0 d1 1\nq2 0 d4 1\n")
    return directory


@pytest.mark.parametrize(("name", "topics"), [("topics.txt", SGML), ("topics.trec", SGML), ("topics.xml", XML)])
def test_the_query_of_a_topic_is_its_title(shop: Path, name: str, topics: str) -> None:
    (shop / name).write_text(topics)
    assert read_dataset(shop).queries == {"q1": "red bell", "q2": "oil chain"}
    (shop / name).unlink()
    (shop / f"{name}.gz").write_bytes(gzip.compress(topics.encode()))
    assert read_dataset(shop).queries == {"q1": "red bell", "q2": "oil chain"}


@pytest.mark.parametrize(
    ("topics", "message"),
    [
        (SGML.replace("</top>", ""), r"topics\.txt: a <top> without its </top>"),
        (SGML.replace("<title> red", "red"), r"topics\.txt:2: a topic .*1 and 0"),
        (SGML.replace("<num> Number: q1", "<num>"), r"topics\.txt:2: a topic"),
        (SGML.replace("q2", "q1"), r"topics\.txt:11: .*'q1'"),
        (SGML.replace("Topic: oil chain", ""), r"topics\.txt:11: query 'q2'"),
        ("301 red bell\n", r"topics\.txt: neither"),
        ("<topics></topics>", r"topics\.txt: no query in the whole file"),
        ("<topics><topic>x</topic></topics>", r"topics\.txt: topic 1: a topic"),
    ],
)
def test_a_topic_that_cannot_be_read_is_said_with_its_place(shop: Path, topics: str, message: str) -> None:
    (shop / "topics.txt").write_text(topics)
    with pytest.raises(DatasetError, match=message):
        read_dataset(shop)


GROWS = "\u0958"  # one character that NFC makes two of
UNSENDABLE_TEXTS = [
    "",
    " \t\n\u3000",
    "\x00\x1b",
    "x" * (MOST_QUERY_CHARACTERS + 1),
    "a" + "\u0301" * 40,
    GROWS * (MOST_QUERY_CHARACTERS // 2 + 1),
]


@pytest.mark.parametrize("text", UNSENDABLE_TEXTS)
def test_a_query_that_no_request_can_carry_is_refused_by_its_id(tmp_path: Path, text: str) -> None:
    path = tmp_path / "queries.jsonl"
    path.write_text(
        "".join(json.dumps({"_id": identity, "text": query}) + "\n" for identity, query in [("q1", "x"), ("q2", text)])
    )
    with pytest.raises(DatasetError, match=r"queries\.jsonl:2: query 'q2': .*1 of 2 queries .*--skip-unsendable"):
        read_queries(path)
    left = read_queries(path, skip_unsendable=True)
    assert (dict(left.texts), sorted(left.unsendable)) == ({"q1": "x"}, ["q2"])


@pytest.mark.parametrize("longest", ["x" * MOST_QUERY_CHARACTERS, GROWS * (MOST_QUERY_CHARACTERS // 2)])
def test_the_longest_query_that_a_request_can_carry_is_read_and_can_be_passed_on(tmp_path: Path, longest: str) -> None:
    path = tmp_path / "queries.jsonl"
    path.write_text(json.dumps({"_id": "q1", "text": longest}) + "\n")
    sent = SearchRequest(query=read_queries(path).texts["q1"])
    assert SearchRequest.model_validate_json(sent.model_dump_json()) == sent


def test_where_every_query_would_be_left_out_none_is(tmp_path: Path) -> None:
    path = tmp_path / "queries.jsonl"
    path.write_text('{"_id": "q1", "text": ""}\n{"_id": "q2", "text": " "}\n')
    with pytest.raises(DatasetError, match=r"'q1'.*'q2'.*2 of 2 queries"):
        read_queries(path, skip_unsendable=True)


def test_a_judged_query_that_is_left_out_is_counted_and_takes_its_judgments_along(shop: Path) -> None:
    (shop / "queries.jsonl").write_text('{"_id": "q1", "text": "red bell"}\n{"_id": "q2", "text": " "}\n')
    left = read_dataset(shop, skip_unsendable=True)
    assert (list(left.queries), list(left.judgments)) == (["q1"], ["q1"])
    assert (left.counts.judged_queries, left.counts.judgments, left.counts.queries_unsendable) == (1, 1, 1)
    assert left.counts.left_out is not None
    _, record = read_or_recall(shop, "test", strict=False, skip_unsendable=True, record=None)
    again, _ = read_or_recall(shop, "test", strict=False, skip_unsendable=True, record=record)
    assert again.judgments == left.judgments
    with pytest.raises(DatasetError, match="q2"):
        read_or_recall(shop, "test", strict=False, record=record)


def test_queries_in_two_files_are_refused(shop: Path) -> None:
    (shop / "topics.txt").write_text(SGML)
    (shop / "queries.jsonl").write_text('{"_id": "q1", "text": "red bell"}\n')
    with pytest.raises(DatasetError, match=r"queries\.jsonl, topics\.txt"):
        read_dataset(shop)


def test_a_missing_file_and_a_directory_in_place_of_the_queries_are_named(shop: Path) -> None:
    with pytest.raises(DatasetError, match=r"queries\.jsonl: "):
        read_dataset(shop)
    (shop / "queries.jsonl").mkdir()
    with pytest.raises(DatasetError, match=r"queries\.jsonl: "):
        read_dataset(shop)
