"""Counts the words of a corpus in one pass: of the whole, of chosen documents, and how often each word occurs.

Memory grows with the different words of one corpus, never with its documents.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evaluator.datasets.corpus import corpus_documents
from evaluator.datasets.text_files import HashedLines
from evaluator.errors import DatasetError
from evaluator.progress import Advance

if TYPE_CHECKING:  # numpy is imported where it is used: the command line starts without it
    import numpy as np
    from numpy.typing import NDArray

# Letters, digits and underscores, in lower case: no analyser, so that no language is favoured.
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The different words of a corpus, 16 bytes a word. Two words collide with a probability of about words² / 2^65."""

    hashes: "NDArray[np.uint64]"  # of the words, ascending
    shares: "NDArray[np.float64]"  # of each word among all words; their sum is 1


@dataclass(frozen=True, slots=True)
class CorpusWords:
    """What one pass over a corpus counted. Lengths are words separated by white space, of title and text."""

    documents: int
    words: int
    lengths: Mapping[str, int]  # by id, of the chosen documents that the corpus has
    vocabulary: Vocabulary


def count_corpus_words(
    corpus: Path, sha256: str, chosen: Container[str], advance: Advance = lambda count, lost=0: None
) -> CorpusWords:
    """Reads a corpus once, and calls `advance` for each document.

    Raises DatasetError where its sha256 is another one, or it has no word at all.
    """
    lines = HashedLines(corpus)
    documents = words = 0
    lengths: dict[str, int] = {}
    counts: Counter[str] = Counter()
    for read in corpus_documents(corpus, lines):
        document = read.document
        length = len(document.title.split()) + len(document.text.split())
        documents += 1
        words += length
        if document.id in chosen:
            lengths[document.id] = length
        advance(1)
        counts.update(_WORD.findall(f"{document.title} {document.text}".lower()))
    if lines.sha256 != sha256:
        raise DatasetError(f"{corpus} changed since the queries ran; rank or import again")
    if not counts:
        raise DatasetError(f"{corpus}: not one word in the whole file")
    return CorpusWords(documents, words, lengths, vocabulary_of(counts))


def vocabulary_of(counts: Mapping[str, int]) -> Vocabulary:
    """Returns the vocabulary of words counted in a text."""
    import numpy as np

    # Not Python's own hash, which differs from process to process: a collision would change the figures.
    digests = b"".join(
        hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest() for word in counts
    )
    hashes = np.frombuffer(digests, dtype="<u8").astype(np.uint64)
    occurrences = np.fromiter(counts.values(), dtype=np.float64, count=len(counts))
    order = np.argsort(hashes)
    return Vocabulary(hashes[order], occurrences[order] / occurrences.sum())


def weighted_jaccard(first: Vocabulary, second: Vocabulary) -> float:
    """Returns Σ min(s, t) / Σ max(s, t) over all words of either corpus; 0 to 1 (Thakur et al. 2021, figure 2).

    s and t: the shares of a word. As the shares of a corpus sum to 1, Σ max is 2 - Σ min.
    """
    import numpy as np

    _, in_first, in_second = np.intersect1d(first.hashes, second.hashes, assume_unique=True, return_indices=True)
    common = float(np.minimum(first.shares[in_first], second.shares[in_second]).sum())
    return min(1.0, common / (2 - common))
