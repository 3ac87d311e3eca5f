"""Checks the analysis of the embedded engine case by case. An integration test compares it with Elasticsearch's."""

import random
import threading
import time
from collections.abc import Callable

import pytest

from services.lexical import analysis
from services.lexical.analysis import joined_words_of, words_of

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
    "nothing is nothing": (" \n!?… 😀", ""),
}


@pytest.mark.parametrize("case", CASES)
def test_a_text_is_analysed_as_in_english(case: str) -> None:
    text, expected = CASES[case]
    assert " ".join(words_of(text)) == expected


MARKS = "\u0301\u0316"  # of two classes: canonical ordering has to sort them


def seconds(text: str) -> float:
    started = time.thread_time()
    words_of(text)
    return time.thread_time() - started


@pytest.mark.parametrize("unit", [MARKS, "e" + MARKS, "a.", "a'", ".", "a", "\u4e2d", "b "])
def test_the_time_of_the_analysis_is_linear_for_any_text(unit: str) -> None:
    short, long = (unit * (count // len(unit)) for count in (10_000, 160_000))
    seconds(short)
    # Sixteen times the length: a quadratic analysis takes 256 times as long.
    assert min(seconds(long) for _ in range(2)) < 100 * max(min(seconds(short) for _ in range(3)), 0.001)


def test_a_document_of_160_kilobytes_of_combining_marks_is_analysed_quickly() -> None:
    assert seconds(MARKS * 40_000) < 1.0


def test_a_long_text_has_the_same_words_wherever_it_is_cut() -> None:
    draw = random.Random(5)
    for alphabet in ("ab1_.,:' ", "ab1.,:'", "e\u0301\u4e2d\u30ab.", "a.\n"):
        text = "".join(draw.choices(alphabet, k=2 * analysis.PIECE))
        for cut in range(analysis.PIECE - 1, analysis.PIECE + 2):
            words = words_of("x" * 200 + " " + text[:cut])
            assert words == words_of("x" * 200)[:1] + whole(text[:cut])


def whole(text: str) -> list[str]:
    """Returns the words of a text that is analysed in one piece."""
    return [
        word
        for found in analysis._WORD.findall(analysis.unicodedata.normalize("NFC", text))
        for word in words_of(found)
    ]


def test_a_word_of_more_than_255_characters_is_cut_as_lucene_cuts_it() -> None:
    assert [len(word) for word in words_of("q" * 600)] == [255, 255, 90]
    assert [len(word) for word in words_of("a." * 300)] == [255, 255, 87]
    assert words_of("x" * 255 + ".y") == ["x" * 255, "y"]
    assert [len(word) for word in words_of("q" * 40_000)] == [255] * 156 + [220]


def test_other_threads_run_while_a_document_of_3_megabytes_is_analysed() -> None:
    longest, ended = 0.0, threading.Event()
    work = threading.Thread(target=lambda: (joined_words_of("brake pad " * 300_000), ended.set()))
    work.start()
    while not ended.is_set():
        started = time.perf_counter()
        time.sleep(0.005)
        longest = max(longest, time.perf_counter() - started)
    work.join()
    assert longest < 0.5


RULES: dict[str, tuple[str, object]] = {
    "a stop word more": ("STOP_WORDS", analysis.STOP_WORDS | {"brake"}),
    "a stop word less": ("STOP_WORDS", analysis.STOP_WORDS - {"such"}),
    "another stemmer": ("_STEMMER", "english"),
    "no possessives": ("_POSSESSIVES", ()),
    "other words": ("_WORD", analysis.re.compile(r"\w+")),
    "no composing": ("_composed", str),
    "decomposing": ("_composed", lambda text: analysis.unicodedata.normalize("NFD", text)),
    "accents folded": ("_composed", lambda text: text.replace("e\u0301", "e")),
}
# Simulates changes of the code of `words_of` by changing its result.
TWISTS: dict[str, Callable[[list[str]], list[str]]] = {
    "short words dropped": lambda words: [word for word in words if len(word) > 2],
    "numbers dropped": lambda words: [word for word in words if not word[0].isdigit()],
    "digits parted": lambda words: " ".join(words).replace(",", " ").split(),
    "long words cut": lambda words: [word[:6] for word in words],
    "ß written out": lambda words: [word.casefold() for word in words],
    "ideographs dropped": lambda words: [word for word in words if word < "぀"],
    "each word once": lambda words: list(dict.fromkeys(words)),
}


@pytest.mark.parametrize("rule", RULES)
def test_the_stamp_changes_with_a_rule_that_is_data(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, *RULES[rule])
    assert analysis.version() != analysis.ANALYSIS


@pytest.mark.parametrize("twist", TWISTS)
def test_the_stamp_changes_with_a_rule_that_is_code(twist: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "words_of", lambda text: TWISTS[twist](words_of(text)))
    assert analysis.version() != analysis.ANALYSIS


def test_the_stamp_is_unchanged_because_a_new_one_requires_reindexing() -> None:
    assert analysis.version() == analysis.ANALYSIS == "english-0630c9942f4e"
