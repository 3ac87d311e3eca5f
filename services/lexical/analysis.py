"""English analysis as Elasticsearch's `english` analyzer does it: words, possessives, stop words, Porter stems. Pure.

For Qdrant Edge, whose own analysis splits words otherwise and has another stemmer (README.md has the figures).
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterator

import Stemmer  # type: ignore[import-not-found]  # PyStemmer is one file of machine code, without types

from services.contracts.combining_marks import stream_safe

# Characters of a word, as in Lucene. No part of the stamp, like PIECE: both change only what nobody has written.
LONGEST = 255
# Characters analysed in one go. A multiple of LONGEST: a word that fills a whole piece is cut at the same places.
PIECE = 64 * LONGEST
_SPACE = re.compile(r"\s")
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
_STEMMER = "porter"
# One word or more for each rule that is code and not data: case, composing (the e has its accent apart), possessives,
# what joins letters and digits and what parts them, ideographs, stop words, short words, every step of Porter's.
_PROBE = (
    "The Dog's dogs WERE cafe\u0301 Straße İzmir O’Neil’s U.S.A. 3.14 1,000 10:30 a,b state-of-the-art km/h snake_case "
    "中文の カタカナ who has us s is ponies caresses agreed plastered motoring sky hopping filing happy relational "
    "conditional digitizer operator feudalism sensitivity triplicate hopeful goodness revival adjustable adoption "
    "effective probate cease controlling"
)


def words_of(text: str) -> list[str]:
    """The index terms of a text, in order. Takes time and memory in proportion to it, whatever it is made of."""
    return [term for terms in _by_piece(text) for term in terms]


def joined_words_of(text: str) -> str:
    """The index terms of a document's text with a space between two: 8 MB of short words as a list take 600 MB."""
    return " ".join(" ".join(terms) for terms in _by_piece(text) if terms)


def _by_piece(text: str) -> Iterator[list[str]]:
    # A stemmer of its own for each call (0.4 µs): one is not to be shared between threads. It remembers words.
    stemmer = Stemmer.Stemmer(_STEMMER)
    for piece in _pieces(text):
        for words in _words(_composed(piece)):
            yield _terms(words, stemmer)


def _pieces(text: str) -> Iterator[str]:
    """A long text in parts that end before white space, where neither a word nor a composed letter can be cut.

    Each call of the expression and the stemmer holds the interpreter's lock: 8 MB in one call stopped all else for 2 s.
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
    """The words of a part; of one without white space again in parts, each of which ends between two words."""
    if len(text) <= PIECE:
        yield _WORD.findall(text)
        return
    start = 0
    while start < len(text):
        end = min(start + PIECE, len(text))
        found = list(_WORD.finditer(text, start, end))
        # What ends this close to the cut may go on behind it: it begins the next part, if it did not begin this one.
        if end < len(text) and found and found[-1].end() + 2 > end and found[-1].start() > start:
            end = found.pop().start()
        yield [one.group() for one in found]
        start = end


def _terms(words: list[str], stemmer: Stemmer.Stemmer) -> list[str]:
    """Words as they are indexed."""
    if words and max(map(len, words)) > LONGEST:
        words = [part for word in words for part in _parts(word)]
    bare = (word[:-2] if word.endswith(_POSSESSIVES) else word for word in words)
    kept = [word for word in map(str.lower, bare) if word and word not in STOP_WORDS]
    stems: list[str] = stemmer.stemWords(kept)
    # Porter's own rule, which Lucene keeps and Snowball does not: words of one or two letters stay.
    return [stem if len(word) > 2 else word for word, stem in zip(kept, stems, strict=True)]


def _parts(word: str) -> Iterator[str]:
    """A word that is too long, as Lucene's standard tokenizer cuts it."""
    start = 0
    while begun := _WORD.search(word, start, start + LONGEST):
        found = _WORD.match(word, begun.start(), begun.start() + LONGEST) or begun
        yield found.group()
        start = found.end()


def _composed(text: str) -> str:
    # Queries arrive composed (NFC): a document with decomposed letters would never be found. Without the bound a run
    # of 80,000 marks took 9 s; what has no longer run stays as it is, and so do the terms and the stamp.
    return unicodedata.normalize("NFC", stream_safe(text))


def version() -> str:
    """What decides the terms, as text for the stamp: another rule is another text, without anybody's thinking of it.

    The library's version is no part of it: Porter's algorithm is finished, and new stems would show in the probe.
    """
    rules = [words_of(_PROBE), sorted(STOP_WORDS), _WORD.pattern, _POSSESSIVES, _STEMMER]
    return f"english-{hashlib.sha256(json.dumps(rules).encode()).hexdigest()[:12]}"


# Made once: it takes 0.1 ms, and every search compares it.
ANALYSIS = version()
