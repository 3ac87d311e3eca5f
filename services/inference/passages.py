"""Cuts the tokens of a document into passages. Pure: counts and offsets in, ranges of tokens out.

The best passage is the document's score, MaxP: Dai and Callan, "Deeper Text Understanding for IR with Contextual
Neural Language Modeling" (SIGIR 2019), section 3.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from services.contracts.passages import Passages

_WORD = re.compile(r"\w+")


def lowercase_words(text: str) -> Iterator[str]:
    """Yields the words in lower case, one by one: a list of all words of 8 MB would hold the GIL for 0.4 s."""
    return (match[0] for match in _WORD.finditer(text.lower()))


def word_offsets(text: str, most: int | None = None) -> list[tuple[int, int]]:
    """Returns the first character of each of at most `most` words, and the one behind its last."""
    return [match.span() for match in islice(_WORD.finditer(text), most)]


def count_words(text: str) -> int:
    return sum(1 for _ in _WORD.finditer(text))


Offsets = Sequence[tuple[int, int]]  # of each token: its first character, and the one behind its last
CHARACTERS_PER_TOKEN = 4  # of English, 4 to 5
# What a re-ranker reads of a document at most, or a book would take the time of all; 30,000 characters at 256 tokens.
MOST_PASSAGES = 32


@dataclass(frozen=True, slots=True)
class Split:
    """The cut of documents for a re-ranker; `titles` are the characters of the title that each begins with."""

    passages: Passages
    titles: tuple[int, ...]

    def of(self, places: Iterable[int]) -> "Split":
        """Returns the split of the documents at these places."""
        return Split(self.passages, tuple(self.titles[place] for place in places))


@dataclass(frozen=True, slots=True)
class CutTokens:
    """Passages of a document: each is its first `front` tokens, the title, and one of `ranges` of the others."""

    front: int
    ranges: tuple[range, ...]


def cut_tokens(count: int, title: int, size: int, overlap: int, most: int | None = None) -> CutTokens:
    """Cuts a document of `count` tokens, of which the first `title` are its title, into passages of at most `size`.

    A document that fits is one passage without a front. Of a long title half a passage stands in front, and the rest
    belongs to the text; the overlap is at most half of the rest. Only what follows `most` passages is in none.
    """
    if count <= size:
        return CutTokens(0, (range(count),))
    front = min(title, size // 2)
    room = size - front
    overlap = min(overlap, room // 2)
    # The last one that begins has at least one token that no other has.
    starts = range(front, count - overlap, room - overlap)[:most]
    return CutTokens(front, tuple(range(start, min(count, start + room)) for start in starts))


def count_title_tokens(offsets: Offsets, title: int) -> int:
    """Counts the tokens that begin within the first `title` characters."""
    return next((place for place, (start, _) in enumerate(offsets) if start >= title), len(offsets))


def passage_text(text: str, offsets: Offsets, tokens: range) -> str:
    """Returns the substring of these tokens: from the first character of the first to the last one of the last."""
    return text[offsets[tokens.start][0] : offsets[tokens.stop - 1][1]] if tokens else ""


def cut_text(text: str, offsets: Offsets, title: int, size: int, overlap: int) -> list[str]:
    """Cuts a text, whose first `title` characters are its title, into passages of at most `size` tokens.

    A text that fits is one passage, as it is. In others the title stands in front, as `cut_tokens` says.
    """
    cut = cut_tokens(len(offsets), count_title_tokens(offsets, title), size, overlap)
    if len(cut.ranges) == 1:
        return [text]
    front = passage_text(text, offsets, range(cut.front))
    return [f"{front} {passage_text(text, offsets, tokens)}".strip() for tokens in cut.ranges]


def cut_words(title: str, text: str, passages: Passages) -> list[str]:
    """Cuts a document as `cut_text` does, where no model says what a token is: by words."""
    whole = f"{title} {text}".strip()
    return cut_text(whole, word_offsets(whole), len(title.strip()), passages.tokens, passages.overlap)


def cut_passages(passages: Sequence[str], split: Split | None, size: int) -> list[list[str]]:
    """Cuts each passage into its parts as `split` says, at most MOST_PASSAGES; else into one of its first words."""
    titles, overlap, most = (0,) * len(passages), 0, 1
    if split is not None:
        titles, size, overlap, most = split.titles, split.passages.tokens, split.passages.overlap, MOST_PASSAGES
    read = zip(passages, titles, strict=True)
    # One word more shows that there is more.
    return [cut_text(text, word_offsets(text, most * size + 1), title, size, overlap)[:most] for text, title in read]
