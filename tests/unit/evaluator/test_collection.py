"""The collection of our own is whole, judged, and as hard as its README says."""

import json
import re
from collections import Counter

import pytest

from evaluator.datasets.reader import Dataset, read_dataset
from services.contracts.documents import Document
from tests.support.processes import ROOT

FOLDER = ROOT / "evaluator" / "collections" / "bicycle-workshop"


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
def dataset() -> Dataset:
    """Read in strict mode, which refuses ids, judgments and fields that do not fit together."""
    return read_dataset(FOLDER, strict=True)


@pytest.fixture(scope="module")
def documents(dataset: Dataset) -> list[Document]:
    return list(dataset.documents())


@pytest.fixture(scope="module")
def kinds() -> dict[str, str]:
    parsed = map(json.loads, (FOLDER / "queries.jsonl").read_text(encoding="utf-8").splitlines())
    return {query["_id"]: query["metadata"]["kind"] for query in parsed}


def test_fifteen_queries_of_each_of_four_kinds_are_judged_from_nought_to_two(
    dataset: Dataset, kinds: dict[str, str]
) -> None:
    assert Counter(kinds.values()) == {"keyword": 15, "question": 15, "paraphrase": 15, "identifier": 15}
    assert dataset.judgments.keys() == dataset.queries.keys() == kinds.keys()
    assert {grade for judged in dataset.judgments.values() for grade in judged.values()} == {0, 1, 2}
    assert all(2 in judged.values() for judged in dataset.judgments.values())


def test_every_document_is_short_and_can_be_filtered_by_keyword_and_date_and_jobs_by_minutes(
    dataset: Dataset, documents: list[Document]
) -> None:
    assert dataset.schema == {"area": "keyword", "minutes": "number", "revised": "date"}
    for document in documents:
        assert {"area", "revised"} <= document.metadata.keys()
        assert document.title.strip()
        assert len(document.text) <= 1200
        assert 40 <= len(document.text.split()) <= 140
    assert 100 < sum("minutes" in document.metadata for document in documents) < len(documents)


def test_paraphrases_share_no_content_word_with_what_answers_them(
    dataset: Dataset, documents: list[Document], kinds: dict[str, str]
) -> None:
    known = {document.id: content(f"{document.title} {document.text}") for document in documents}
    shared = {
        (query, document): content(text) & known[document]
        for query, text in dataset.queries.items()
        if kinds[query] == "paraphrase"
        for document, grade in dataset.judgments[query].items()
        if grade == 2
    }
    assert {pair: common for pair, common in shared.items() if common} == {}


def test_the_readme_states_the_counts_of_the_files(dataset: Dataset) -> None:
    readme = " ".join((FOLDER / "README.md").read_text(encoding="utf-8").split())
    grades = Counter(grade for judged in dataset.judgments.values() for grade in judged.values())
    shares = f"({grades[2]} of grade 2, {grades[1]} of 1, {grades[0]} of 0)"
    assert f" {dataset.counts.documents} documents of " in readme
    assert f" {len(dataset.queries)} queries and {grades.total()} judgments {shares}." in readme
