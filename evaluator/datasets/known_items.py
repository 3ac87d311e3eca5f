"""Proposes known-item queries: each is a sentence of a document, which alone answers it.

Known-item search (Azzopardi, de Rijke and Balog, SIGIR 2007) needs no judges. It favours lexical search, because a
query has the words of its document.
"""

import hashlib
import heapq
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from evaluator.datasets.corpus import corpus_documents
from evaluator.datasets.text_files import HashedLines
from services.contracts.documents import Document
from services.contracts.words import FULL_STOPS, UNSPACED, word_pattern

LEAST_WORDS, MOST_WORDS = 6, 25
# Shares of letters below this are tables, addresses and code.
LEAST_LETTERS = 0.7
# Documents drawn for each proposal: some have no sentence that no other one has.
CANDIDATES = 3

# A single line break stands within a sentence: many texts are wrapped. Thai and Lao end one by a space.
_ENDS = re.compile(
    rf"(?<=[.!?])\s+|(?<=[{FULL_STOPS}])(?![{FULL_STOPS}\"'”’»)\]」』）】])\s*|(?<=[ก-ໟ]) +(?=[ก-ໟ])|\n\s*\n"
)


class KnownItem(NamedTuple):
    """A sentence of one document, and of no other one."""

    sentence: str
    document: str


def known_items(corpus: Path, count: int, seed: int) -> list[KnownItem]:
    """Returns at most `count` sentences of different documents, the same for the same corpus and seed.

    Documents are drawn by a hash of their id, so that a new document replaces few proposals. Reads the corpus twice.
    """
    if not count:
        return []
    drawn = heapq.nsmallest(CANDIDATES * count, _drawn(corpus, seed))
    owners = {sentence: document for _, document, sentences in drawn for sentence in sentences}
    repeated = {
        sentence
        for document in _documents(corpus)
        for sentence in owners.keys() & set(_sentences(document))
        if owners[sentence] != document.id
    }
    items = []
    for _, document, sentences in drawn:
        if own := next((sentence for sentence in sentences if sentence not in repeated), None):
            items.append(KnownItem(own, document))
    return items[:count]


def _drawn(corpus: Path, seed: int) -> Iterator[tuple[str, str, list[str]]]:
    """Yields the hash by which a document is drawn, its id, and its sentences in the order of theirs."""
    for document in _documents(corpus):
        if sentences := sorted(_sentences(document), key=lambda sentence: _hash(seed, sentence)):
            yield _hash(seed, document.id), document.id, sentences


def _documents(corpus: Path) -> Iterator[Document]:
    return (read.document for read in corpus_documents(corpus, HashedLines(corpus)))


def _sentences(document: Document) -> list[str]:
    parts = [" ".join(part.split()) for part in _ENDS.split(document.text)]
    return [sentence for sentence in parts if _is_prose(sentence)]


def _is_prose(sentence: str) -> bool:
    """Returns whether a sentence can be a query; one that begins in lower case is the rest of `e.g. this`."""
    words = word_pattern(sentence).findall(sentence)
    # Runs of Thai and its like have about four characters a word. At most, two ideographs count as one word.
    unspaced = [word for word in words if UNSPACED.match(word)]
    count = len(words) + sum(len(word) // 4 for word in unspaced)
    if not LEAST_WORDS <= count <= MOST_WORDS + len(unspaced) / 2:
        return False
    letters = sum(unicodedata.category(character)[0] in "LMZ" for character in sentence)
    # Georgian letters count as lower-case ones, but begin sentences: they have no title case.
    return letters >= LEAST_LETTERS * len(sentence) and sentence[0] == sentence[0].title()


def _hash(seed: int, text: str) -> str:
    return hashlib.sha256(f"{seed} {text}".encode()).hexdigest()
