"""Words of a text, one by one, for the encoder and the scorer without weights."""

import re
from collections.abc import Iterator

_WORD = re.compile(r"\w+")


def words_of(text: str) -> Iterator[str]:
    """The words in lower case. A list of all of 8 MB takes 0.4 s during which no other thread runs."""
    return (found[0] for found in _WORD.finditer(text.lower()))


def word_count(text: str) -> int:
    """How many words a text has."""
    return sum(1 for _ in _WORD.finditer(text))
