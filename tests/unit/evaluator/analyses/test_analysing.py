"""The set of a file of added judgments is stated, and never guessed; lengths of documents are counted as shown."""

from pathlib import Path

import pytest

from evaluator.analyses.analysing import judgment_files, length_distribution, set_statistics
from evaluator.analyses.corpus_words import CorpusWords, vocabulary_of
from evaluator.errors import WrongOption


def test_files_alone_are_of_the_only_set() -> None:
    assert judgment_files(["more.tsv", "shop=again.tsv"], ["shop"]) == {"shop": [Path("more.tsv"), Path("again.tsv")]}


@pytest.mark.parametrize(
    ("words", "said"), [(["more.tsv"], "shop=more.tsv"), (["shed=more.tsv"], "'shed'.*shop, depot")]
)
def test_the_set_of_a_file_is_never_guessed(words: list[str], said: str) -> None:
    with pytest.raises(WrongOption, match=said):
        judgment_files(words, ["shop", "depot"])


def test_a_document_counts_as_often_as_it_is_shown() -> None:
    lengths = length_distribution(["a", "b", "a", "c", "gone"], {"a": 4, "b": 9, "c": 1, "other": 100})
    assert lengths.counts == ((1, 1), (4, 2), (9, 1))
    assert (lengths.documents, lengths.absent, lengths.mean) == (4, 1, 4.5)
    assert lengths.quartiles == (1, 4, 4)


def test_a_single_document_is_all_quartiles_and_none_has_no_figure() -> None:
    assert length_distribution(["a"], {"a": 7}).quartiles == (7, 7, 7)
    none = length_distribution(["gone"], {})
    assert (none.documents, none.absent, none.mean, none.quartiles, none.counts) == (0, 1, None, None, ())


def test_statistics_count_relevant_and_judged_documents_apart() -> None:
    corpus = CorpusWords(documents=2, words=5, lengths={}, vocabulary=vocabulary_of({"a": 1}))
    statistics = set_statistics({"q1": {"d1": 1, "d2": 0}}, {"q1": "lock", "q2": "a chain"}, corpus)
    assert (statistics.judged_a_query, statistics.relevant_a_query) == (2.0, 1.0)
    assert (statistics.query_words, statistics.document_words) == (1.0, 2.5)
