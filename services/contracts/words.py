"""Cuts texts into words as Lucene's standard tokenizer does, by Unicode's word boundaries (UAX 29). Pure.

Runs of Thai, Lao, Khmer and Burmese, which are written without spaces, are one word; an ideograph or hiragana is one.
"""

import re

import regex

# What ends a sentence without white space behind it, in the scripts that have such marks.
FULL_STOPS = "。！？｡‼⁇⁈⁉।॥؟۔܀-܂։።፧፨။។៕།༎᠃෴"

_MARK = r"\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}"
_LETTER, _HEBREW = r"\p{WB=ALetter}\p{WB=Hebrew_Letter}", r"\p{WB=Hebrew_Letter}"
_NUMBER, _LOW_LINE, _KATAKANA = r"\p{WB=Numeric}０-９", r"\p{WB=ExtendNumLet}", r"\p{WB=Katakana}"
_SINGLE = rf"[\p{{Han}}\p{{Hiragana}}--[{_LETTER}]]"  # 々 is a letter
# No letters, numbers or joints in Unicode 9, by which Lucene 9 cuts.
_LATER = "¸˥-˫՚՟֊\u0600-\u0605\u06dd\u070f\u08e2"
_BEGIN = f"[{_LETTER}{_NUMBER}--[{_LATER}]]"
_REST = f"[{_LETTER}{_NUMBER}{_LOW_LINE}{_MARK}--[{_LATER}]]*+"
_IN_LETTERS, _IN_NUMBERS = (rf"[\p{{WB={joint}}}\p{{WB=MidNumLet}}'--[{_LATER}]]" for joint in ("MidLetter", "MidNum"))
_JOINT = (
    rf"(?:(?<=[{_LETTER}][{_MARK}]*+){_IN_LETTERS}[{_MARK}]*+(?=[{_LETTER}])"
    rf"|(?<=[{_NUMBER}][{_MARK}]*+){_IN_NUMBERS}[{_MARK}]*+(?=[{_NUMBER}])"
    rf"|(?<={_HEBREW}[{_MARK}]*+)(?:'|\"(?=[{_MARK}]*+{_HEBREW})))"
)
_LOW_LINES, _KANA = (f"{characters}[{characters}{_MARK}]*+" for characters in (_LOW_LINE, _KATAKANA))
_PART = rf"(?:{_BEGIN}{_REST}(?:{_JOINT}{_REST})*+|{_KANA}(?:{_LOW_LINES})?+)"
_PARTS = rf"{_PART}(?:(?<={_LOW_LINE}[{_MARK}]*+){_PART})*+"
# Lucene 9 has the emoji of Unicode 11, which had more symbols (★, ♪).
_SYMBOLS = "☀-★☇-☒☔-⚅⚐-✅✈-✒❣-❧\U0001f000-\U0001f0ff\U0001f300-\U0001f5ff"
_PICTURE = rf"[\p{{Emoji}}\p{{ExtPict}}{_SYMBOLS}--[\p{{WB=RI}}0-9#*]][{_MARK}--[\ufe0e\ufe0f]]*+\ufe0f?+"
_EMOJI = rf"{_PICTURE}(?:\u200d?+(?<=\u200d){_PICTURE})*+|[#*]\ufe0f?+\u20e3|(?:\p{{WB=RI}}[{_MARK}]*+){{2}}"
_WORD = (
    rf"{_PARTS}|\p{{LB=SA}}[\p{{LB=SA}}{_MARK}]*+|{_SINGLE}[{_MARK}]*+"
    rf"|{_LOW_LINES}(?:{_PARTS}|(*SKIP)(*FAIL))|{_EMOJI}"
)
_HANGUL = rf"(?:[\p{{Hangul}}&&[{_LETTER}]][{_MARK}]*+)++(?!{_BEGIN}|{_LOW_LINE}|{_IN_LETTERS}[{_MARK}]*+[{_LETTER}])"

WORD = regex.compile(rf"(?V1)(?![ \n])(?:{_WORD})")
# Ideographs, kana and hangul beside one another count as one word.
WORD_OR_RUN = regex.compile(rf"(?V1)(?![ \n])(?:(?:{_SINGLE}[{_MARK}]*+|{_KANA}(?!{_LOW_LINE})|{_HANGUL})++|{_WORD})")
OF_RUN = regex.compile(rf"(?V1)(?:[{_SINGLE}{_KATAKANA}\p{{Hangul}}--[{_MARK}]][{_MARK}]*+)++")
MARK = regex.compile(f"[{_MARK}]")
UNSPACED = regex.compile(rf"(?V1)[{_SINGLE}\p{{LB=SA}}]")

# Letters that carry no marks, and usual signs: a simple expression finds their words three times as fast.
_PLAIN = re.compile("[\0-\x7f\xa0-\xa8ª«¬°±´-·º»¿-\u024fΈ-ώЀ-ҁҊ-ԯ‐-‟†-•…‰-›€]*")
_PLAIN_WORD = re.compile(
    r"(?:(?<!_)_++)?+[^\W_]\w*+(?:(?:(?<=[^\W\d_])[.:'‘’·](?=[^\W\d_])|(?<=\d)[.,;'‘’](?=\d))\w++)*+"
)


def word_pattern(text: str, runs: bool = False) -> regex.Pattern[str] | re.Pattern[str]:
    """Returns the expression that finds the words of a text; with `runs` WORD_OR_RUN. Each takes linear time."""
    if _PLAIN.fullmatch(text):
        return _PLAIN_WORD
    return WORD_OR_RUN if runs else WORD
