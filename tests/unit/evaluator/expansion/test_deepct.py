"""A word's frequency is half its count and half its weight, and words divide as the lexical service divides them."""

from collections import Counter

import pytest

from evaluator.expansion.deepct import word_frequencies
from services.contracts.expansions import WordFrequencies
from services.lexical.analysis import words_of

NUMBERS = {"oil": (1,), "chain": (2, 3), "dry": ()}


def pieces(word: str) -> tuple[int, ...]:
    return NUMBERS.get(word, ())


def test_a_number_with_a_narrow_space_is_written_as_two_words() -> None:
    assert word_frequencies("10\u202f000", {}, pieces) == "10|10 000|10"


def test_half_of_a_frequency_is_the_count_and_half_the_weight() -> None:
    # Weights of the words: 1, 2 and 0; the mean is 1.
    assert word_frequencies("Oil chain oil, dry", {1: 1.0, 2: 0.5, 3: 2.0}, pieces) == "Oil|20 chain|15 dry|5"


@pytest.mark.parametrize("weights", [{}, {9: 1.0}])
def test_words_without_any_weight_keep_their_counts(weights: dict[int, float]) -> None:
    assert word_frequencies("oil oil chain", weights, pieces) == "oil|20 chain|10"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "…|!",
        "The Dog's dogs WERE cafe\u0301 Straße İzmir O’Neil’s U.S.A. 3.14 1,000 10:30 a,b state-of-the-art km/h",
        'हिन्दी भाषा நான் ọjọ́ كِتاب العَرَبِيَّةُ ภาษาไทย 👍🏽 👩\u200d💻 ΣΟΦΙΑΣ ___ צה"ל Ա՛բ',
        "snake_case 中文の カタカナ foo,bar a|b 1.b end. x:y;z",
    ],
)
def test_the_words_are_those_of_the_lexical_service(text: str) -> None:
    words = WordFrequencies(model="toy@0123456789ab", words=word_frequencies(text, {}, pieces))
    found: Counter[str] = Counter()
    for word, times in words.frequencies():
        for term in words_of(word, "english"):
            found[term] += times
    assert found == {term: 10 * count for term, count in Counter(words_of(text, "english")).items()}
