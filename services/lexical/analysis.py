"""English analysis as Elasticsearch's `english` analyzer does it: words, possessives, stop words, Porter stems. Pure.

For Qdrant Edge, whose own analysis splits words otherwise and has another stemmer (README.md has the figures).
"""

import hashlib
import json
import re
import unicodedata

import Stemmer  # type: ignore[import-not-found]  # PyStemmer is one file of machine code, without types

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
    """The index terms of a text, in order."""
    words = (word[:-2] if word.endswith(_POSSESSIVES) else word for word in _WORD.findall(_composed(text)))
    kept = [word for word in map(str.lower, words) if word and word not in STOP_WORDS]
    # A stemmer of its own for each call (0.4 µs): one is not to be shared between threads.
    stems: list[str] = Stemmer.Stemmer(_STEMMER).stemWords(kept)
    # Porter's own rule, which Lucene keeps and Snowball does not: words of one or two letters stay.
    return [stem if len(word) > 2 else word for word, stem in zip(kept, stems, strict=True)]


def _composed(text: str) -> str:
    # Queries arrive composed (NFC): a document with decomposed letters would never be found.
    return unicodedata.normalize("NFC", text)


def version() -> str:
    """What decides the terms, as text for the stamp: another rule is another text, without anybody's thinking of it.

    The library's version is no part of it: Porter's algorithm is finished, and new stems would show in the probe.
    """
    rules = [words_of(_PROBE), sorted(STOP_WORDS), _WORD.pattern, _POSSESSIVES, _STEMMER]
    return f"english-{hashlib.sha256(json.dumps(rules).encode()).hexdigest()[:12]}"


# Made once: it takes 0.1 ms, and every search compares it.
ANALYSIS = version()
