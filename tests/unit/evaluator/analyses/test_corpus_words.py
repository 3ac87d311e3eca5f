"""Words are counted in one pass, and vocabularies compared by the formula of the paper."""

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.analyses.corpus_words import count_corpus_words, vocabulary_of, weighted_jaccard
from evaluator.datasets.text_files import sha256
from evaluator.errors import DatasetError

words = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 9), min_size=1)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    documents = [
        {"_id": "d1", "title": "Chain and Sprocket", "text": "A chain, a chain."},
        {"_id": "d2", "title": "", "text": ""},
        {"_id": "d3", "title": "", "text": "two  words"},
    ]
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps(document) + "\n" for document in documents))
    return path


def textbook(first: dict[str, int], second: dict[str, int]) -> float:
    of_first, of_second = Counter(first), Counter(second)
    shares = [(of_first[w] / of_first.total(), of_second[w] / of_second.total()) for w in first | second]
    return sum(map(min, shares)) / sum(map(max, shares))


def test_a_hand_worked_pair_has_its_similarity() -> None:
    # Shares 1/2, 1/2 and 1/4, 3/4: minima 1/4 + 1/2, maxima 1/2 + 3/4.
    similarity = weighted_jaccard(vocabulary_of({"chain": 1, "wheel": 1}), vocabulary_of({"chain": 1, "wheel": 3}))
    assert similarity == pytest.approx(0.75 / 1.25)


@given(words, words)
def test_the_similarity_is_that_of_the_formula_and_has_no_order(first: dict[str, int], second: dict[str, int]) -> None:
    vocabulary, other = vocabulary_of(first), vocabulary_of(second)
    assert weighted_jaccard(vocabulary, other) == pytest.approx(textbook(first, second))
    assert weighted_jaccard(vocabulary, other) == weighted_jaccard(other, vocabulary)
    assert weighted_jaccard(vocabulary, vocabulary) == pytest.approx(1.0)


def test_corpora_without_a_common_word_have_none() -> None:
    assert weighted_jaccard(vocabulary_of({"a": 3}), vocabulary_of({"b": 2})) == 0


def test_one_pass_counts_documents_words_and_chosen_lengths(corpus: Path) -> None:
    counted = count_corpus_words(corpus, sha256(corpus), {"d2", "d3", "elsewhere"})
    assert (counted.documents, counted.words) == (3, 9)
    assert counted.lengths == {"d2": 0, "d3": 2}
    # chain three times and a twice, without case and punctuation.
    assert weighted_jaccard(
        counted.vocabulary, vocabulary_of({"chain": 3, "a": 2, "and": 1, "sprocket": 1, "two": 1, "words": 1})
    ) == pytest.approx(1.0)


def test_a_corpus_that_changed_since_the_run_is_refused(corpus: Path) -> None:
    with pytest.raises(DatasetError, match=r"corpus\.jsonl"):
        count_corpus_words(corpus, "0" * 64, set())


def test_a_corpus_without_words_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "corpus.jsonl"
    empty.write_text('{"_id": "d1", "title": "", "text": "–"}\n')
    with pytest.raises(DatasetError, match="not one word"):
        count_corpus_words(empty, sha256(empty), set())
