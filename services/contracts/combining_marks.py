"""Bounds runs of combining marks in text: canonical ordering (NFC) takes quadratic time in the length of a run.

The bound is that of Unicode's Stream-Safe Text Format (UAX 15, section 13). No known script comes near it.
"""

import re
import sys
import unicodedata

MOST_MARKS = 30
# Ends a run of marks and has no glyph: the character that UAX 15 names for this.
GRAPHEME_JOINER = "\u034f"
_FIRST_MARK = 0x300


def stream_safe(text: str) -> str:
    """Splits every run of more than 30 combining marks with joiners, so that normalising is linear.

    Returns any other text unchanged.
    """
    if not has_overlong_run(text):
        return text
    return _FULL_RUN.sub(lambda run: run.group() + GRAPHEME_JOINER, text)


def has_overlong_run(text: str) -> bool:
    """Returns whether the text has a run of more than 30 combining marks."""
    if text.isascii() or not _MARK.search(text[MOST_MARKS :: MOST_MARKS + 1]):
        return False  # a run of 31 covers one of every 31st character: 8 million characters take 10 ms instead of 800
    return _OVERLONG_RUN.search(text) is not None


def _marks() -> str:
    """Returns, as ranges of a regular expression, every character whose decomposition begins with a combining mark."""
    ranges: list[list[int]] = []
    # Planes above 1 hold ideographs and tags, which do not combine.
    for point in range(_FIRST_MARK, min(0x20000, sys.maxunicode)):
        # Three Tibetan vowels (U+0F81 among them) have class 0 but decompose into two marks.
        if unicodedata.combining(unicodedata.normalize("NFD", chr(point))[0]):
            if ranges and ranges[-1][1] == point - 1:
                ranges[-1][1] = point
            else:
                ranges.append([point, point])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


_MARKS = _marks()
_MARK = re.compile(f"[{_MARKS}]")
_FULL_RUN = re.compile(f"[{_MARKS}]{{{MOST_MARKS}}}(?=[{_MARKS}])")
_OVERLONG_RUN = re.compile(f"[{_MARKS}]{{{MOST_MARKS + 1}}}")
