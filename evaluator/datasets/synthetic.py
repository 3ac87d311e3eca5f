"""Writes a collection of made-up words in BEIR layout, of any size: for measurements of capacity, not of quality.

Words follow Zipf's law. A query is of words of one document, which alone is judged relevant to it.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evaluator.datasets.corpus import CORPUS
from evaluator.datasets.new_collection import QRELS, new_directory
from evaluator.datasets.queries import QUERIES
from evaluator.errors import WrongOption
from evaluator.progress import progress

VOCABULARY = 200_000
QUERY_WORDS = 4
# Ranks of words that stand for stop words: in no query whose document has enough others.
FREQUENT = 100
# Documents in memory at once.
BATCH = 10_000
_SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprtvz" for vowel in "aiou"]


def write_synthetic(directory: Path, documents: int, queries: int, words: int, seed: int) -> None:
    """Writes the folder, which appears whole or not at all. Equal arguments give equal bytes.

    `words`: the mean of a document's; lengths follow a Poisson distribution. Raises WrongOption.
    """
    if queries > documents:
        raise WrongOption(f"--queries {queries}: each is of a document of its own, and there are {documents}")
    random = np.random.default_rng(seed)
    vocabulary = np.array([_word(rank) for rank in range(VOCABULARY)], dtype=object)
    shares = np.cumsum(1.0 / np.arange(1, VOCABULARY + 1))
    shares /= shares[-1]
    with new_directory(directory) as made, progress("Writing documents", documents, "documents") as advance:
        (made / QRELS).parent.mkdir()
        with (
            (made / CORPUS).open("w", encoding="ascii") as corpus,
            (made / QUERIES).open("w", encoding="ascii") as queries_file,
            (made / QRELS).open("w", encoding="ascii") as judgments_file,
        ):
            judgments_file.write("query-id\tcorpus-id\tscore\n")
            query = 0
            for first in range(0, documents, BATCH):
                batch = _texts(random, min(BATCH, documents - first), words, shares)
                lines = []
                for place, ranks in enumerate(batch, start=first):
                    lines.append(f'{{"_id": "d{place:08}", "title": "", "text": "{" ".join(vocabulary[ranks])}"}}\n')
                    # Documents of queries are spread evenly: all are drawn alike.
                    if query < queries and place == query * documents // queries:
                        text = " ".join(vocabulary[_query(random, ranks)])
                        queries_file.write(f'{{"_id": "q{query:06}", "text": "{text}"}}\n')
                        judgments_file.write(f"q{query:06}\td{place:08}\t1\n")
                        query += 1
                corpus.writelines(lines)
                advance(len(lines))


def _word(rank: int) -> str:
    """Returns the word of a rank: two syllables, or more for rarer ones. None is a stop word of English."""
    word, rank = "", rank + len(_SYLLABLES)
    while rank >= 0:
        rank, syllable = divmod(rank, len(_SYLLABLES))
        word += _SYLLABLES[syllable]
        rank -= 1
    return word


def _texts(
    random: np.random.Generator, count: int, words: int, shares: NDArray[np.float64]
) -> Iterator[NDArray[np.intp]]:
    """Yields the ranks of each document's words."""
    ends = np.cumsum(np.maximum(1, random.poisson(words, count)))
    ranks = np.searchsorted(shares, random.random(int(ends[-1])), side="right")
    return iter(np.split(ranks, ends[:-1]))


def _query(random: np.random.Generator, ranks: NDArray[np.intp]) -> NDArray[np.intp]:
    distinct = np.unique(ranks)
    rare = distinct[-max(QUERY_WORDS, int((distinct >= FREQUENT).sum())) :]
    return random.permutation(rare)[:QUERY_WORDS]
