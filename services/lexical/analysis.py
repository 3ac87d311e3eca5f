"""Analyses English as Elasticsearch's `english` analyzer does: words, possessives, stop words, Porter stems. Pure.

For Qdrant Edge, whose own analysis splits words differently and has another stemmer (figures: docs/parity.md).
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterator

import Stemmer  # type: ignore[import-not-found]  # PyStemmer is one file of machine code, without types

from services.contracts.combining_marks import stream_safe

# Characters of a word, as in Lucene. Like PIECE not part of the stamp: both affect only text that does not occur.
LONGEST_WORD = 255
# Characters analysed in one call. A multiple of LONGEST_WORD, so that a word filling a piece is cut at the same places.
PIECE = 64 * LONGEST_WORD
_SPACE = re.compile(r"\s")
_STOP_WORDS = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
    "to was will with"
)
STOP_WORDS = frozenset(_STOP_WORDS.split())
# Lucene's standard tokenizer makes each ideograph and each hiragana a word of its own.
_SINGLE = "぀-ゟ㐀-䶿一-鿿豈-﫿"
_IN_WORD = rf"(?:[^\W{_SINGLE}])+"
# UAX 29: `: . ' ’ ·` join letters, `. , ; ' ’` join digits.
_WORD = re.compile(rf"[{_SINGLE}]|{_IN_WORD}(?:(?:(?<=[^\W\d_])[:.'’·](?=[^\W\d_])|(?<=\d)[.,;'’](?=\d)){_IN_WORD})*")
_POSSESSIVES = ("'s", "’s", "'S", "’S")
_STEMMER = "porter"
# At least one word for each rule that is code, not data: case, composition (the e has a separate accent), possessives,
# characters that join or split letters and digits, ideographs, stop words, short words, every step of Porter's.
_PROBE = (
    "The Dog's dogs WERE cafe\u0301 Straße İzmir O’Neil’s U.S.A. 3.14 1,000 10:30 a,b state-of-the-art km/h snake_case "
    "中文の カタカナ who has us s is ponies caresses agreed plastered motoring sky hopping filing happy relational "
    "conditional digitizer operator feudalism sensitivity triplicate hopeful goodness revival adjustable adoption "
    "effective probate cease controlling"
)


def words_of(text: str) -> list[str]:
    """Returns the index terms of a text, in order. Takes linear time and memory for any text."""
    return [term for terms in _terms_by_piece(text) for term in terms]


def joined_words_of(text: str) -> str:
    """Returns the index terms of a text joined by spaces: a list of 8 MB of short words would take 600 MB."""
    return " ".join(" ".join(terms) for terms in _terms_by_piece(text) if terms)


def term_spans(text: str) -> tuple[str, list[tuple[int, int, str]]]:
    """Returns a text in NFC, and the start, end and index term of its words, in order, without stop words.

    For texts of a bounded length. Words above LONGEST_WORD are left out.
    """
    composed, stemmer = _composed(text), Stemmer.Stemmer(_STEMMER)
    spans = [
        (found.start(), found.end(), term)
        for found in _WORD.finditer(composed)
        if found.end() - found.start() <= LONGEST_WORD
        for term in _terms([found.group()], stemmer)
    ]
    return composed, spans


def _terms_by_piece(text: str) -> Iterator[list[str]]:
    # One stemmer for each call (0.4 µs): it caches words and must not be shared between threads.
    stemmer = Stemmer.Stemmer(_STEMMER)
    for piece in _pieces(text):
        for words in _words(_composed(piece)):
            yield _terms(words, stemmer)


def _pieces(text: str) -> Iterator[str]:
    """Splits a long text before white space, where neither a word nor a composed letter can be cut.

    Each call of the regular expression and the stemmer holds the GIL: 8 MB in one call blocked all threads for 2 s.
    """
    start = 0
    while len(text) - start > PIECE:
        end = max(text.rfind(" ", start + 1, start + PIECE), text.rfind("\n", start + 1, start + PIECE))
        if end < 0:
            found = _SPACE.search(text, start + PIECE)
            end = found.start() if found else len(text)
        yield text[start:end]
        start = end
    yield text[start:]


def _words(text: str) -> Iterator[list[str]]:
    """Yields the words of a piece. Splits a longer piece, which has no white space, between two words."""
    if len(text) <= PIECE:
        yield _WORD.findall(text)
        return
    start = 0
    while start < len(text):
        end = min(start + PIECE, len(text))
        found = list(_WORD.finditer(text, start, end))
        # A word that ends this close to the cut may continue after it: it moves to the next part, unless it began this.
        if end < len(text) and found and found[-1].end() + 2 > end and found[-1].start() > start:
            end = found.pop().start()
        yield [one.group() for one in found]
        start = end


def _terms(words: list[str], stemmer: Stemmer.Stemmer) -> list[str]:
    """Turns words into index terms."""
    if words and max(map(len, words)) > LONGEST_WORD:
        words = [part for word in words for part in _parts(word)]
    bare = (word[:-2] if word.endswith(_POSSESSIVES) else word for word in words)
    kept = [word for word in map(str.lower, bare) if word and word not in STOP_WORDS]
    stems: list[str] = stemmer.stemWords(kept)
    # Porter's own rule, which Lucene keeps and Snowball does not: words of one or two letters are not stemmed.
    return [stem if len(word) > 2 else word for word, stem in zip(kept, stems, strict=True)]


def _parts(word: str) -> Iterator[str]:
    """Cuts an overlong word as Lucene's standard tokenizer does."""
    start = 0
    while begun := _WORD.search(word, start, start + LONGEST_WORD):
        found = _WORD.match(word, begun.start(), begun.start() + LONGEST_WORD) or begun
        yield found.group()
        start = found.end()


def _composed(text: str) -> str:
    # Queries arrive composed (NFC), so a document with decomposed letters would never be found. stream_safe bounds runs
    # of marks: one of 80,000 took 9 s. It leaves other text unchanged, and so the terms and the stamp.
    return unicodedata.normalize("NFC", stream_safe(text))


def version() -> str:
    """Returns a version of the analysis for the stamp. Any changed rule changes it automatically.

    Excludes the library's version: Porter's algorithm is final, and changed stems would show in the probe.
    """
    rules = [words_of(_PROBE), sorted(STOP_WORDS), _WORD.pattern, _POSSESSIVES, _STEMMER]
    return f"english-{hashlib.sha256(json.dumps(rules).encode()).hexdigest()[:12]}"


# Computed once: it takes 0.1 ms, and every search compares it.
ANALYSIS = version()
