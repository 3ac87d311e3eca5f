"""Bounds runs of combining marks in text: canonical ordering (NFC) takes quadratic time in the length of a run.

The bound is that of Unicode's Stream-Safe Text Format (UAX 15, section 13), which no known writing comes near.
"""

import re
import sys
import unicodedata

MOST_MARKS = 30
# Put between two marks it ends the run and has no glyph: UAX 15 names it for this.
GRAPHEME_JOINER = "\u034f"
_FIRST_MARK = 0x300


def stream_safe(text: str) -> str:
    """Breaks every run of more than 30 combining marks by joiners, so that normalising is linear. Others stay equal."""
    if not has_overlong_run(text):
        return text
    return _FULL_RUN.sub(lambda run: run.group() + GRAPHEME_JOINER, text)


def has_overlong_run(text: str) -> bool:
    """Whether a run of more than 30 combining marks stands in the text."""
    if text.isascii() or not _MARK.search(text[MOST_MARKS :: MOST_MARKS + 1]):
        return False  # every run of 31 has one of each 31st character: 8 million of them take 10 ms so, and not 800
    return _OVERLONG_RUN.search(text) is not None


def _marks() -> str:
    """Every character that begins with a combining mark once decomposed, as ranges for a regular expression."""
    ranges: list[list[int]] = []
    # Beyond planes 0 and 1 stand ideographs and tags, which combine with nothing.
    for point in range(_FIRST_MARK, min(0x20000, sys.maxunicode)):
        # Three Tibetan vowels (U+0F81 among them) are of class 0 themselves and decompose into two marks.
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
