"""The analysis of the embedded engine, case by case; that it is Elasticsearch's is an integration test."""

from collections.abc import Callable

import pytest

from services.lexical import analysis
from services.lexical.analysis import words_of

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
# What a change of the code in `words_of` might do, put behind it.
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
def test_the_stamp_changes_with_what_the_code_makes_of_words(twist: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "words_of", lambda text: TWISTS[twist](words_of(text)))
    assert analysis.version() != analysis.ANALYSIS


def test_the_stamp_changes_only_on_purpose_since_every_index_must_then_be_made_anew() -> None:
    assert analysis.version() == analysis.ANALYSIS == "english-0630c9942f4e"
