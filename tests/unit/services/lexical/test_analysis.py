"""Checks the analysis of the embedded engine case by case. An integration test compares it with Elasticsearch's."""

import json
import random
import re
import threading
import time
import unicodedata
from dataclasses import replace
from typing import Any

import pytest
import Stemmer  # type: ignore[import-not-found]  # one file of machine code, without types
from hypothesis import given
from hypothesis import strategies as st

from services.contracts import words
from services.contracts.base import Language
from services.contracts.words import WORD, word_pattern
from services.lexical import analysis
from services.lexical.analysis import LANGUAGES, LanguageRules, joined_words_of, term_spans, words_of
from tests.golden.make_analysed_texts import ANALYSED_TEXTS, KEPT

CASES = {
    "words are stemmed by Porter": ("running flies happily generalizations", "run fli happili gener"),
    "case does not count": ("BRAKE Brake brake", "brake brake brake"),
    "possessives are cut": ("the child's O’Neil’s DOG'S", "child o’neil dog"),
    "stop words are dropped": ("to be or not to be, that is it", ""),
    "other short words stay": ("who has us s he", "who ha us s he"),
    "points join letters and digits": ("U.S.A. 3.14 1,000 10:30 a,b", "u.s.a 3.14 1,000 10 30 b"),
    "hyphens and slashes part": ("state-of-the-art km/h", "state art km h"),
    "ideographs stand alone": ("中文 カタカナ", "中 文 カタカナ"),
    "decomposed letters are composed": ("cafe\u0301", "café"),
    "nothing is nothing": (" \n!?… ___", ""),
    "emoji are words": ("🔥 hot🔥 👍🏽👩\u200d💻 🇩🇪", "🔥 hot 🔥 👍🏽 👩\u200d💻 🇩🇪"),
    "letters keep their marks": ("हिन्दी நான் ọjọ́ كِتاب", "हिन्दी நான் ọjọ́ كِتاب"),
    "each code point is lower-cased alone": ("İZMİR ΟΔΟΣ", "izmir οδοσ"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_text_is_analysed_as_in_english(case: str) -> None:
    text, expected = CASES[case]
    assert " ".join(words_of(text, "english")) == expected


IN_OTHER_LANGUAGES: dict[Language, tuple[str, str]] = {
    "german": ("Die Häuser der Brüder waren größer, Straßen führten dahin", "haus brud gross strass fuhrt dahin"),
    "french": ("L’homme qu'il aimait, les chevaux d'autrefois; jusqu'à l'école", "homm aim cheval autrefois écol"),
    "spanish": ("Los niños corrían rápidamente por las calles", "niñ corr rapid call"),
    "italian": ("L'arte dell'amore e le città italiane", "arte amor citt italian"),
    "russian": ("Книги и столы в домах", "книг стол дом"),
    "cjk": ("東京都の人口 ＡＢＣ ﾃﾞｰﾀ 한국어 中 LG전자", "東京 京都 都の の人 人口 abc デー ータ 한국 국어 中 lg전자"),
}


@pytest.mark.parametrize("language", IN_OTHER_LANGUAGES)
def test_a_text_is_analysed_as_in_its_language(language: Language) -> None:
    text, expected = IN_OTHER_LANGUAGES[language]
    assert " ".join(words_of(text, language)) == expected
    composed, spans = term_spans(text, language)
    assert [term for _, _, term in spans] == expected.split()
    assert all(words_of(composed[start:end], language)[0] == term for start, end, term in spans if term != "ータ")


def test_a_long_text_without_spaces_has_every_bigram_between_its_marks() -> None:
    sentence = "東京都に行った。"
    assert words_of(sentence * 10_000, "cjk") == words_of(sentence, "cjk") * 10_000


@pytest.mark.parametrize("one", json.loads(ANALYSED_TEXTS.read_text(encoding="utf-8")), ids=lambda one: one["about"])
def test_a_text_of_any_script_has_the_words_that_elasticsearch_gave(one: dict[str, Any]) -> None:
    languages = KEPT if Stemmer.version() < "3" else KEPT[:3]
    assert {language: words_of(one["text"], language) for language in languages} == {
        language: one[language] for language in languages
    }


# What the fast expression takes: every character of it below U+3000.
PLAIN = [chr(point) for point in range(0x3000) if words._PLAIN.fullmatch(chr(point))]


def test_the_fast_expression_has_the_words_of_the_general_one_for_each_of_its_characters() -> None:
    assert len(PLAIN) > 900
    for one in PLAIN:
        for text in (one, f"a{one}b", f"1{one}2", f"_{one}_", f"a{one}{one}b", f"é{one}1"):
            assert word_pattern(text).findall(text) == WORD.findall(text), ascii(text)


@given(st.text(st.sampled_from("ab1_.,:;'’·éж -\"…\n") | st.sampled_from(PLAIN), max_size=40))
def test_the_fast_expression_has_the_words_of_the_general_one(text: str) -> None:
    assert word_pattern(text) is words._PLAIN_WORD
    assert word_pattern(text).findall(text) == WORD.findall(text) == words.WORD_OR_RUN.findall(text)


MARKS = "\u0301\u0316"  # of two classes: canonical ordering has to sort them


def seconds(text: str, language: Language = "english") -> float:
    started = time.thread_time()
    words_of(text, language)
    return time.thread_time() - started


@pytest.mark.parametrize(
    ("language", "unit"),
    [
        *(("english", unit) for unit in (MARKS, "e" + MARKS, "a.", "_" + MARKS, "🔥\u200d", "é.\u200d", "ก")),
        *(("cjk", unit) for unit in ("\u4e2d", "가a", "가.", "ｶﾞ", "カ_")),
        ("french", "l'"),
    ],
)
def test_the_time_of_the_analysis_is_linear_for_any_text(language: Language, unit: str) -> None:
    short, long = (unit * (count // len(unit)) for count in (10_000, 160_000))
    seconds(short, language)
    # Sixteen times the length: a quadratic analysis takes 256 times as long.
    within = 100 * max(min(seconds(short, language) for _ in range(3)), 0.001)
    assert min(seconds(long, language) for _ in range(2)) < within


def test_a_long_text_has_the_same_words_wherever_it_is_cut() -> None:
    draw = random.Random(5)
    for alphabet in ("ab1_.,:' ", "ab1.,:'", "e\u0301\u4e2d\u30ab.", "a.\n"):
        text = "".join(draw.choices(alphabet, k=2 * analysis.PIECE))
        for cut in range(analysis.PIECE - 1, analysis.PIECE + 2):
            words = words_of("x" * 200 + " " + text[:cut], "english")
            assert words == words_of("x" * 200, "english")[:1] + whole(text[:cut])


def whole(text: str) -> list[str]:
    """Returns the words of a text that is analysed in one piece."""
    return [word for found in WORD.findall(unicodedata.normalize("NFC", text)) for word in words_of(found, "english")]


def test_a_word_of_more_than_255_characters_is_cut_as_lucene_cuts_it() -> None:
    assert [len(word) for word in words_of("q" * 600, "english")] == [255, 255, 90]
    assert [len(word) for word in words_of("a." * 300, "english")] == [255, 255, 87]
    assert words_of("x" * 255 + ".y", "english") == ["x" * 255, "y"]
    assert [len(word) for word in words_of("q" * 40_000, "english")] == [255] * 156 + [220]


def test_other_threads_run_while_a_document_of_3_megabytes_is_analysed() -> None:
    longest, ended = 0.0, threading.Event()

    def analyse() -> None:
        joined_words_of("brake pad " * 300_000, "english")
        ended.set()

    work = threading.Thread(target=analyse)
    work.start()
    while not ended.is_set():
        started = time.perf_counter()
        time.sleep(0.005)
        longest = max(longest, time.perf_counter() - started)
    work.join()
    assert longest < 0.5


ENGLISH, FRENCH = LANGUAGES["english"], LANGUAGES["french"]
RULES: dict[str, tuple[Language, LanguageRules]] = {
    "a stop word more": ("english", replace(ENGLISH, stop_words=ENGLISH.stop_words | {"brake"})),
    "another stemmer": ("english", replace(ENGLISH, stemmer="english")),
    "no possessives": ("english", replace(ENGLISH, possessives=())),
    "an article less": ("french", replace(FRENCH, articles=FRENCH.articles - {"d"})),
}
CODE: dict[str, tuple[str, object]] = {
    "other words": ("WORD_OR_RUN", re.compile(r"\w+")),
    "no composing": ("_composed", str),
    "accents folded": ("_composed", lambda text: text.replace("e\u0301", "e")),
}
STAMPS: dict[Language, str] = {
    "english": "english-c5aa51887170",
    "cjk": "cjk-5e9a9ba5be79",
    "danish": "danish-96c25af5f5ce",
    "dutch": "dutch-1c609b0874bf",
    "finnish": "finnish-93f590828b23",
    "french": "french-dcf83795f5e4",
    "german": "german-a219923808d7",
    "hungarian": "hungarian-33b6d287c115",
    "indonesian": "indonesian-27a93410cd01",
    "italian": "italian-0dfdade45753",
    "norwegian": "norwegian-c00ed2e3f4fc",
    "portuguese": "portuguese-1843753913d0",
    "russian": "russian-90d055ba3eb7",
    "spanish": "spanish-9250dba01aa5",
    "swedish": "swedish-3c5af5971258",
}


@pytest.mark.parametrize("rule", RULES)
def test_the_stamp_changes_with_a_rule_that_is_data(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    language, rules = RULES[rule]
    monkeypatch.setattr(analysis, "LANGUAGES", {language: rules})
    assert analysis.version(language) != STAMPS[language]


@pytest.mark.parametrize("rule", CODE)
def test_the_stamp_changes_with_a_pattern_or_a_way_to_compose(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, *CODE[rule])
    assert analysis.version("english") != STAMPS["english"]


# PyStemmer 3, which Python 3.14 needs, has other stems in nine languages.
@pytest.mark.parametrize("language", STAMPS if Stemmer.version() < "3" else ["english", "cjk", "hungarian", "russian"])
def test_the_stamp_is_unchanged_because_a_new_one_requires_reindexing(language: Language) -> None:
    assert analysis.version(language) == analysis.known_version(language) == STAMPS[language]
