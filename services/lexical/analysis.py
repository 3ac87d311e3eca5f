"""Analyses texts as Elasticsearch does: words, possessives or elided articles, stop words, stems. Pure.

English as its analyzer `english`; the other languages as the analyzers of ours in `elasticsearch_mapping`.
For highlights, and for Qdrant Edge, whose own analysis splits and stems words differently (docs/parity.md).
"""

import functools
import hashlib
import json
import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import Stemmer  # type: ignore[import-not-found]  # PyStemmer is one file of machine code, without types

from services.contracts.base import Language, stream_safe
from services.contracts.words import MARK, OF_RUN, WORD, WORD_OR_RUN, word_pattern

POSSESSIVES = ("'s", "’s", "＇s", "'S", "’S", "＇S")


@dataclass(frozen=True, slots=True)
class LanguageRules:
    """The rules for the words of a language, in the order in which they apply.

    `bigrams`: each two neighbours of ideographs, kana and hangul make a word. `possessives` are endings that are cut,
    `articles` are cut with their apostrophe. `stemmer`: its name in PyStemmer, if any. `probe`: a text for every rule.
    """

    bigrams: bool
    possessives: tuple[str, ...]
    articles: frozenset[str]
    stop_words: frozenset[str]
    stemmer: str | None
    probe: str


def _rules(language: Language, data: Mapping[str, str], shared_probe: str) -> LanguageRules:
    stemmers = {"english": "porter", "cjk": None}
    return LanguageRules(
        bigrams=language == "cjk",
        possessives=POSSESSIVES if language == "english" else (),
        articles=frozenset(data.get("articles", "").split()),
        stop_words=frozenset(data.get("stop_words", "").split()),
        stemmer=stemmers.get(language, language),
        probe=data["probe"] if language == "english" else f"{shared_probe} {data['probe']}",
    )


def _read() -> dict[Language, LanguageRules]:
    data = tomllib.loads(Path(__file__).with_name("languages.toml").read_text(encoding="utf-8"))
    return {language: _rules(language, data[language], data["english"]["probe"]) for language in get_args(Language)}


LANGUAGES: Mapping[Language, LanguageRules] = _read()

# Characters of a word, as in Lucene. Like PIECE not part of the stamp: both affect only text that does not occur.
LONGEST_WORD = 255
# Characters analysed in one call. A multiple of LONGEST_WORD, so that a word filling a piece is cut at the same places.
PIECE = 64 * LONGEST_WORD
_SPACE = re.compile(r"\s")
# Full-width Latin and half-width kana, which Lucene's CJKWidthFilter folds.
_OTHER_WIDTH = re.compile("[か-ほウ-ヺ]?[！-～ｦ-ﾟ]+")


def words_of(text: str, language: Language) -> list[str]:
    """Returns the index terms of a text, in order. Takes linear time and memory for any text."""
    return [term for terms in _terms_by_piece(text, language) for term in terms]


def joined_words_of(text: str, language: Language) -> str:
    """Returns the index terms of a text joined by spaces: a list of 8 MB of short words would take 600 MB."""
    return " ".join(" ".join(terms) for terms in _terms_by_piece(text, language) if terms)


def term_spans(text: str, language: Language) -> tuple[str, list[tuple[int, int, str]]]:
    """Returns a text in NFC, and the start, end and index term of its words, in order, without stop words.

    For texts of a bounded length. Words above LONGEST_WORD are left out. Bigrams overlap.
    """
    composed, rules = _composed(text), LANGUAGES[language]
    stemmer = _stemmer(rules)
    spans = [
        (start, end, term)
        for match in word_pattern(composed, rules.bigrams).finditer(composed)
        for start, end in _spans(*match.span(), match.group(), rules)
        for term in _terms([composed[start:end]], rules, stemmer)
    ]
    return composed, spans


def _spans(start: int, end: int, word: str, rules: LanguageRules) -> Iterator[tuple[int, int]]:
    """Yields where the terms of a word stand: a run with half-width kana or marks, not to be cut, counts as one."""
    if rules.bigrams and OF_RUN.fullmatch(word):
        if end - start > 2 and not _OTHER_WIDTH.search(word) and not MARK.search(word):
            yield from ((at, at + 2) for at in range(start, end - 1))
        else:
            yield start, end
    elif end - start <= LONGEST_WORD:
        yield start, end


def _terms_by_piece(text: str, language: Language) -> Iterator[list[str]]:
    rules = LANGUAGES[language]
    stemmer = _stemmer(rules)
    for piece in _pieces(text):
        for words in _words(_composed(piece), rules.bigrams):
            yield _terms(words, rules, stemmer)


def _stemmer(rules: LanguageRules) -> "Stemmer.Stemmer | None":
    """Returns a stemmer for one call (0.4 µs): it caches words and must not be shared between threads."""
    return None if rules.stemmer is None else Stemmer.Stemmer(rules.stemmer)


def _pieces(text: str) -> Iterator[str]:
    """Splits a long text before white space, where neither a word nor a composed letter can be cut.

    Each call of the regular expression and the stemmer holds the GIL: 8 MB in one call blocked all threads for 2 s.
    """
    start = 0
    while len(text) - start > PIECE:
        end = max(text.rfind(" ", start + 1, start + PIECE), text.rfind("\n", start + 1, start + PIECE))
        if end < 0:
            space = _SPACE.search(text, start + PIECE)
            end = space.start() if space else len(text)
        yield text[start:end]
        start = end
    yield text[start:]


def _words(text: str, runs: bool) -> Iterator[list[str]]:
    """Yields the words of a piece. Splits a longer piece, which has no white space, between two words."""
    pattern = word_pattern(text, runs)
    if len(text) <= PIECE:
        yield pattern.findall(text)
        return
    start = 0
    while start < len(text):
        end = min(start + PIECE, len(text))
        spans = [match.span() for match in pattern.finditer(text, start, end)]
        # A word that ends this close to the cut may go on behind a joint: it moves on, unless it began this part.
        if end < len(text) and spans and spans[-1][1] + LONGEST_WORD > end and spans[-1][0] > start:
            end = spans.pop()[0]
        yield [text[first:last] for first, last in spans]
        start = end


def _terms(words: list[str], rules: LanguageRules, stemmer: "Stemmer.Stemmer | None") -> list[str]:
    """Turns words into index terms."""
    if rules.bigrams:
        words = [part for word in words for part in ((word,) if word.isascii() else _bigrams(word))]
    if words and max(map(len, words)) > LONGEST_WORD:
        words = [part for word in words for part in (_parts(word) if len(word) > LONGEST_WORD else (word,))]
    if rules.possessives:
        words = [word[:-2] if word.endswith(rules.possessives) else word for word in words]
    # Lucene lower-cases each code point alone: Σ at the end of a word, and İ, become one letter, the usual one.
    words = "\n".join(words).replace("Σ", "σ").replace("İ", "i").lower().split("\n")
    if rules.articles:
        words = [_without_article(word, rules.articles) for word in words]
    kept = [word for word in words if word and word not in rules.stop_words]
    if stemmer is None:
        return kept
    stems: list[str] = stemmer.stemWords(kept)
    if rules.stemmer != "porter":
        return stems
    # Porter's own rule, which Lucene keeps and Snowball does not: words of one or two letters are not stemmed.
    return [stem if len(word) > 2 else word for word, stem in zip(kept, stems, strict=True)]


def _bigrams(word: str) -> Iterator[str]:
    """Yields each two neighbours of a run, or its only character; another word as it is. All in the usual width."""
    folded = _OTHER_WIDTH.sub(lambda match: unicodedata.normalize("NFKC", match.group()), word)
    if len(folded) > 2 and OF_RUN.fullmatch(word):
        yield from (folded[at : at + 2] for at in range(len(folded) - 1))
    else:
        yield folded


def _without_article(word: str, articles: frozenset[str]) -> str:
    """Cuts an elided article, as Lucene's ElisionFilter does."""
    article, apostrophe, rest = word.replace("’", "'").partition("'")
    return word[-len(rest) :] if apostrophe and article in articles else word


def _parts(word: str) -> Iterator[str]:
    """Cuts an overlong word as Lucene's standard tokenizer does."""
    start = 0
    while begun := WORD.search(word, start, start + LONGEST_WORD):
        part = WORD.match(word, begun.start(), begun.start() + LONGEST_WORD) or begun
        yield part.group()
        start = part.end()


def _composed(text: str) -> str:
    # Queries arrive composed (NFC), so a document with decomposed letters would never be found. stream_safe bounds runs
    # of marks: one of 80,000 took 9 s. It leaves other text unchanged, and so the terms and the stamp.
    return unicodedata.normalize("NFC", stream_safe(text))


def version(language: Language) -> str:
    """Returns a version of a language's analysis for the stamp. Any changed rule changes it automatically.

    Excludes the library's version: changed stems would show in the probe.
    """
    rules = LANGUAGES[language]
    cut = rules.possessives or sorted(rules.articles)
    parts = [words_of(rules.probe, language), sorted(rules.stop_words), WORD_OR_RUN.pattern, cut, rules.stemmer]
    return f"{language}-{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]}"


# Computed once per language: it takes 0.1 ms, and every search compares it.
known_version = functools.cache(version)
