"""Turns the weights of word pieces into frequencies of words that BM25 reads. Pure."""

import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from services.contracts.words import word_pattern

# Frequencies are ten times as high as counts, so that rounding leaves differences of weight.
SCALE = 10


def word_frequencies(text: str, weights: Mapping[int, float], pieces: Callable[[str], Sequence[int]]) -> str:
    """Returns `word|frequency` of each word, as it stands first: half its count, and half by its weight in the text.

    `weights`: of word pieces by number; a word's is that of its heaviest piece. A word of the mean weight keeps its
    count, times SCALE.
    """
    composed = unicodedata.normalize("NFC", text).replace("\u202f", " ")  # white space, and yet a part of words
    found = word_pattern(composed).findall(composed)
    counts = Counter(map(str.lower, found))
    # In lower case İ becomes a letter and a mark, which would divide the word.
    first = {word.lower(): word for word in reversed(found)}
    heaviest = {word: max((weights.get(piece, 0.0) for piece in pieces(word)), default=0.0) for word in counts}
    mean = sum(heaviest.values()) / max(1, len(heaviest))
    factors = {word: 0.5 + 0.5 * (weight / mean if mean else 1.0) for word, weight in heaviest.items()}
    return " ".join(f"{first[word]}|{round(SCALE * count * factors[word])}" for word, count in counts.items())
