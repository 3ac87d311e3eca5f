"""English analysis as Elasticsearch's `english` analyzer does it: words, possessives, stop words, Porter stems. Pure.

For Qdrant Edge, whose own analysis splits words otherwise and has another stemmer (README.md has the figures).
"""

import re
import unicodedata

import Stemmer  # type: ignore[import-not-found]  # PyStemmer is one file of machine code, without types

# Part of the stamp: another number makes another index.
ANALYSIS = "english-1 (UAX 29 words, Lucene's 33 stop words, Porter)"

_STOP_WORDS = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
    "to was will with"
)
STOP_WORDS = frozenset(_STOP_WORDS.split())
# Lucene's standard tokenizer makes each ideograph and each hiragana a word of its own.
_ALONE = "぀-ゟ㐀-䶿一-鿿豈-﫿"
_IN_WORD = rf"(?:[^\W{_ALONE}])+"
# UAX 29: `: . ' ’ ·` join letters, `. , ; ' ’` join digits.
_WORD = re.compile(rf"[{_ALONE}]|{_IN_WORD}(?:(?:(?<=[^\W\d_])[:.'’·](?=[^\W\d_])|(?<=\d)[.,;'’](?=\d)){_IN_WORD})*")
_POSSESSIVES = ("'s", "’s", "'S", "’S")


def words_of(text: str) -> list[str]:
    """The index terms of a text, in order."""
    words = (word[:-2] if word.endswith(_POSSESSIVES) else word for word in _WORD.findall(_composed(text)))
    kept = [word for word in map(str.lower, words) if word and word not in STOP_WORDS]
    # A stemmer of its own for each call (0.4 µs): one is not to be shared between threads.
    stems: list[str] = Stemmer.Stemmer("porter").stemWords(kept)
    # Porter's own rule, which Lucene keeps and Snowball does not: words of one or two letters stay.
    return [stem if len(word) > 2 else word for word, stem in zip(kept, stems, strict=True)]


def _composed(text: str) -> str:
    # Queries arrive composed (NFC): a document with decomposed letters would never be found.
    return unicodedata.normalize("NFC", text)
