"""The collection of our own is whole, judged, and as hard as its README says."""

import datetime
import json
import re
from collections import Counter
from typing import NamedTuple

import pytest

from tests.support.processes import ROOT

FOLDER = ROOT / "evaluator" / "collections" / "bicycle-workshop"


class Document(NamedTuple):
    id: str
    title: str
    text: str
    metadata: dict[str, str | int]


class Query(NamedTuple):
    id: str
    text: str
    kind: str


def lines(name: str) -> list[str]:
    return (FOLDER / name).read_text(encoding="utf-8").splitlines()


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+(?:'[a-z]+)?", text.lower().replace("’", "'"))


# Words that carry no content: a paraphrase may share these with what answers it.
FUNCTION_WORDS = frozenset(
    words(
        """
        a about after all am an and any are as at be been before but by can can't could did do does doesn't down each
        for from get gets go goes had has have he her his how i i'm if in into is it it's its just like may me more
        most my no nor not of off on once one or our out over she should since so some such than that the their them
        then there these they this those through to too under until up us was we were what when where which while who
        why will with won't would yet you your
        """
    )
)


def crude_stem(word: str) -> str:
    """The word without its commonest endings: coarser than Porter, so that the check errs on the strict side."""
    word = word.removesuffix("'s")
    for ending in ("ing", "ed", "es", "er", "ly", "s", "e", "y"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word.removesuffix(ending)
            break
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word


def content(text: str) -> set[str]:
    return {crude_stem(word) for word in words(text) if word not in FUNCTION_WORDS}


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    parsed = map(json.loads, lines("corpus.jsonl"))
    return [Document(item["_id"], item["title"], item["text"], item["metadata"]) for item in parsed]


@pytest.fixture(scope="module")
def queries() -> list[Query]:
    parsed = map(json.loads, lines("queries.jsonl"))
    return [Query(item["_id"], item["text"], item["metadata"]["kind"]) for item in parsed]


@pytest.fixture(scope="module")
def judgments() -> dict[str, dict[str, int]]:
    judged: dict[str, dict[str, int]] = {}
    for line in lines("qrels/test.tsv")[1:]:
        query, document, grade = line.split("\t")
        assert document not in judged.setdefault(query, {}), f"{query} {document} is judged twice"
        judged[query][document] = int(grade)
    return judged


def test_there_are_fifteen_queries_of_each_of_four_kinds(queries: list[Query]) -> None:
    assert len({query.id for query in queries}) == 60
    assert Counter(query.kind for query in queries) == {
        "keyword": 15,
        "question": 15,
        "paraphrase": 15,
        "identifier": 15,
    }


def test_every_text_is_there_and_short(documents: list[Document], queries: list[Query]) -> None:
    assert all(document.title.strip() and document.text.strip() for document in documents)
    assert all(query.text.strip() for query in queries)
    assert max(len(document.text) for document in documents) <= 1200
    assert all(40 <= len(document.text.split()) <= 140 for document in documents)


def test_every_document_can_be_filtered_by_keyword_and_date_and_jobs_by_minutes(documents: list[Document]) -> None:
    for document in documents:
        assert set(document.metadata) <= {"area", "minutes", "revised"}
        assert isinstance(document.metadata["area"], str)
        assert datetime.date.fromisoformat(str(document.metadata["revised"])).year >= 2019
        assert int(document.metadata.get("minutes", 1)) > 0
    assert 100 < sum("minutes" in document.metadata for document in documents) < len(documents)


def test_every_judgment_names_a_query_and_a_document_that_exist(
    documents: list[Document], queries: list[Query], judgments: dict[str, dict[str, int]]
) -> None:
    assert set(judgments) == {query.id for query in queries}
    assert {document for judged in judgments.values() for document in judged} <= {item.id for item in documents}


def test_grades_are_nought_to_two_and_every_query_has_an_answer(judgments: dict[str, dict[str, int]]) -> None:
    assert {grade for judged in judgments.values() for grade in judged.values()} == {0, 1, 2}
    assert all(2 in judged.values() for judged in judgments.values())


def test_paraphrases_share_no_content_word_with_what_answers_them(
    documents: list[Document], queries: list[Query], judgments: dict[str, dict[str, int]]
) -> None:
    known = {document.id: content(f"{document.title} {document.text}") for document in documents}
    shared = {
        (query.id, document): content(query.text) & known[document]
        for query in queries
        if query.kind == "paraphrase"
        for document, grade in judgments[query.id].items()
        if grade == 2
    }
    assert {pair: common for pair, common in shared.items() if common} == {}


def test_the_readme_states_the_counts_of_the_files(
    documents: list[Document], queries: list[Query], judgments: dict[str, dict[str, int]]
) -> None:
    readme = " ".join((FOLDER / "README.md").read_text(encoding="utf-8").split())
    grades = Counter(grade for judged in judgments.values() for grade in judged.values())
    shares = f"({grades[2]} of grade 2, {grades[1]} of 1, {grades[0]} of 0)"
    assert f" {len(documents)} documents of " in readme
    assert f" {len(queries)} queries and {grades.total()} judgments {shares}." in readme
