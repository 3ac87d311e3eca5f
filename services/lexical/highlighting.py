"""Finds the fragments of a document in which words of a query stand, by our own analysis for every engine. Pure.

Elasticsearch's own highlighter would need positions, and the document among its hits: vectors find others, too.
"""

import re
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from services.contracts.base import Language
from services.contracts.documents import Document, FetchedDocuments, StoredPart
from services.contracts.highlights import Fragment, HighlightRequest, Highlights
from services.contracts.words import FULL_STOPS
from services.lexical.analysis import LONGEST_WORD, term_spans, words_of

# Characters of a field that are searched, and most of a fragment; a match in a longer sentence has this much before it.
MOST_SEARCHED = 100_000
LONGEST_FRAGMENT = 240
BEFORE = 60
_SENTENCE = re.compile(rf"(?:[^.!?{FULL_STOPS}\n]|[.!?](?=\S))*(?:[.!?{FULL_STOPS}]+|\n|$)\s*")


@dataclass(frozen=True, slots=True)
class _Match:
    start: int
    end: int
    term: str


def highlighted(
    answer: FetchedDocuments, request: HighlightRequest, include: Collection[StoredPart]
) -> FetchedDocuments:
    """Returns the answer with the highlights of its documents, whose title and text are left out unless included."""
    options = (request.query, request.fragments, request.language)
    highlights = {document.id: highlights_of(document, *options) for document in answer.documents}
    without = {part: "" for part in ("title", "text") if part not in include}
    documents = tuple(document.model_copy(update=without) for document in answer.documents)
    return answer.model_copy(update={"documents": documents, "highlights": highlights})


def highlights_of(document: Document, query: str, fragments: int, language: Language) -> Highlights:
    """Returns the fragments of title and text; none of a field in which no word of the query stands."""
    terms = frozenset(words_of(query, language))
    title, in_title = _matches(document.title, terms, language)
    text, in_text = _matches(document.text, terms, language)
    return Highlights(
        title=(_fragment(title, 0, len(title), in_title),) if in_title else (), text=_best(text, in_text, fragments)
    )


def _matches(text: str, terms: Collection[str], language: Language) -> tuple[str, list[_Match]]:
    """Returns the text in NFC, as far as it is searched, and the words whose term is one of these."""
    if len(text) > MOST_SEARCHED:  # ends between two words, or in one that is too long to be found
        end = max(text.rfind(space, MOST_SEARCHED - LONGEST_WORD, MOST_SEARCHED) for space in " \n")
        text = text[: end if end > 0 else MOST_SEARCHED]
    composed, spans = term_spans(text, language)
    return composed, [_Match(start, end, term) for start, end, term in spans if term in terms]


def _best(text: str, matches: list[_Match], most: int) -> tuple[Fragment, ...]:
    """Returns the fragments with most words of the query, then most matches, then the first."""
    spans = sorted(
        _spans(text, matches), key=lambda span: (-len({match.term for match in span[2]}), -len(span[2]), span[0])
    )
    return tuple(_fragment(text, *span) for span in spans[:most])


def _spans(text: str, matches: list[_Match]) -> Iterator[tuple[int, int, list[_Match]]]:
    """Yields the sentences with matches, in order, and the matches; parts of those longer than a fragment."""
    left = deque(matches)
    for sentence in _SENTENCE.finditer(text):
        first, last = sentence.start(), sentence.start() + len(sentence.group().rstrip())
        end = first
        while left and left[0].end <= last:
            start, end = _around(text, left[0], max(first, end), last)
            inside = []
            while left and left[0].end <= end:
                inside.append(left.popleft())
            yield start, end, inside


def _around(text: str, match: _Match, first: int, last: int) -> tuple[int, int]:
    """Returns what is left of a sentence, or the part of a longer one that begins a little before a match."""
    first += len(text[first:last]) - len(text[first:last].lstrip())
    if last - first <= LONGEST_FRAGMENT:
        return first, last
    start = _after_space(text, max(first, match.start - BEFORE), match.start)
    return start, max(match.end, _before_space(text, min(last, start + LONGEST_FRAGMENT), match.end))


def _after_space(text: str, at: int, most: int) -> int:
    """Returns the beginning of a word from a place on, at most the place of the match."""
    if at == 0 or text[at - 1].isspace():
        return at
    space = text.find(" ", at, most)
    return most if space < 0 else space + 1


def _before_space(text: str, at: int, least: int) -> int:
    """Returns the end of a word before a place, at least the end of the match."""
    if at == len(text) or text[at].isspace():
        return at
    return max(least, text.rfind(" ", least, at))


def _fragment(text: str, start: int, end: int, matches: list[_Match]) -> Fragment:
    marks: list[tuple[int, int]] = []
    for match in matches:
        if marks and match.start - start < marks[-1][1]:  # bigrams overlap
            marks[-1] = (marks[-1][0], max(marks[-1][1], match.end - start))
        else:
            marks.append((match.start - start, match.end - start))
    return Fragment(start=start, text=text[start:end], matches=tuple(marks))
