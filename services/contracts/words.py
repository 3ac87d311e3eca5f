"""Cuts texts into words as Lucene's standard tokenizer does, by Unicode's word boundaries (UAX 29). Pure.

Runs of Thai, Lao, Khmer and Burmese, which are written without spaces, are one word; an ideograph or hiragana is one.
"""

import re

import regex

# What ends a sentence without white space behind it, in the scripts that have such marks.
FULL_STOPS = "。！？｡‼⁇⁈⁉।॥؟۔܀-܂։።፧፨။។៕།༎᠃෴"

_EXTEND = r"\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}"
_MARKS = f"[{_EXTEND}]*+"
_LETTER = r"\p{WB=ALetter}\p{WB=Hebrew_Letter}"
_NUMBER = r"\p{WB=Numeric}０-９"
_JOINER = r"\p{WB=ExtendNumLet}"
_KATAKANA = r"\p{WB=Katakana}"
# 々 is a letter.
_SINGLE = rf"[\p{{Han}}\p{{Hiragana}}--[{_LETTER}]]"
# No letters, numbers or joints in Unicode 9, by which Lucene 9 cuts.
_LATER = "¸˥-˫՚՟֊\u0600-\u0605\u06dd\u070f\u08e2"
_BEGIN = f"[{_LETTER}{_NUMBER}--[{_LATER}]]"
_REST = f"[{_LETTER}{_NUMBER}{_JOINER}{_EXTEND}--[{_LATER}]]*+"
_IN_LETTERS = rf"[\p{{WB=MidLetter}}\p{{WB=MidNumLet}}'--[{_LATER}]]"
_JOINT = (
    r"(?=[\p{WB=MidLetter}\p{WB=MidNumLet}\p{WB=MidNum}'\"])"
    rf"(?:(?<=[{_LETTER}]{_MARKS}){_IN_LETTERS}{_MARKS}(?=[{_LETTER}])"
    rf"|(?<=[{_NUMBER}]{_MARKS})[\p{{WB=MidNum}}\p{{WB=MidNumLet}}']{_MARKS}(?=[{_NUMBER}])"
    rf"|(?<=\p{{WB=Hebrew_Letter}}{_MARKS})(?:'|\"(?={_MARKS}\p{{WB=Hebrew_Letter}})))"
)
_UNDERSCORES = f"{_JOINER}[{_JOINER}{_EXTEND}]*+"
_KANA = f"{_KATAKANA}[{_KATAKANA}{_EXTEND}]*+"
_PART = rf"(?:{_BEGIN}{_REST}(?:{_JOINT}{_REST})*+|{_KANA}(?:{_UNDERSCORES})?+)"
_PARTS = rf"{_PART}(?:(?<={_JOINER}{_MARKS}){_PART})*+"
# Lucene 9 has the emoji of Unicode 11, which had more symbols (★, ♪).
_PICTURE = (
    r"[\p{Extended_Pictographic}\p{Emoji}☀-★☇-☒☔-⚅⚐-✅✈-✒❣-❧\U0001f000-\U0001f0ff\U0001f300-\U0001f5ff"
    r"--[\p{WB=RI}0-9#*]]"
    rf"[{_EXTEND}--[\ufe0e\ufe0f]]*+\ufe0f?+"
)
_EMOJI = rf"{_PICTURE}(?:\u200d?+(?<=\u200d){_PICTURE})*+|[#*]\ufe0f?+\u20e3{_MARKS}|(?:\p{{WB=RI}}{_MARKS}){{2}}"
_WORD = (
    rf"{_PARTS}|\p{{LB=SA}}[\p{{LB=SA}}{_EXTEND}]*+|{_SINGLE}{_MARKS}"
    rf"|{_UNDERSCORES}(?:{_PARTS}|(*SKIP)(*FAIL))|{_EMOJI}"
)
_HANGUL = (
    rf"(?:[\p{{Hangul}}&&[{_LETTER}]]{_MARKS})++"
    rf"(?!{_BEGIN}|{_JOINER}|{_IN_LETTERS}{_MARKS}[{_LETTER}])"
)
_RUN = rf"(?:{_SINGLE}{_MARKS}|{_KANA}(?!{_JOINER})|{_HANGUL})++"

WORD = regex.compile(rf"(?V1)(?![ \n])(?:{_WORD})")
# Ideographs, kana and hangul beside one another count as one.
WORD_OR_RUN = regex.compile(rf"(?V1)(?![ \n])(?:{_RUN}|{_WORD})")
UNSPACED = regex.compile(rf"(?V1)[{_SINGLE}\p{{LB=SA}}]")
MARK = regex.compile(rf"[{_EXTEND}]")
OF_RUN = regex.compile(rf"(?V1)(?:[{_SINGLE}{_KATAKANA}\p{{Hangul}}--[{_EXTEND}]]{_MARKS})++")

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
