"""The analysis of the embedded engine, case by case; that it is Elasticsearch's is an integration test."""

import pytest

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
