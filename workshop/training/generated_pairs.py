"""Reads pairs of a generated query and its document, and puts them into batches. Reads no judged query."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from evaluator.datasets.corpus import CORPUS, corpus_documents
from evaluator.datasets.text_files import HashedLines
from evaluator.expansion.expansion_file import expanded

Pair = tuple[str, int]  # query, place of its passage


def read_pairs(dataset: Path, queries: Path) -> tuple[list[str], list[Pair]]:
    """Returns the passages, and a pair for each generated query."""
    corpus = dataset / CORPUS
    documents = (record.document for record in corpus_documents(corpus, HashedLines(corpus)))
    passages: list[str] = []
    pairs: list[Pair] = []
    for place, document in enumerate(expanded(documents, [queries])):
        passages.append(document.passage)
        if document.expansions is not None and document.expansions.doc2query is not None:
            pairs += [(query, place) for query in document.expansions.doc2query.queries]
    if not pairs:
        raise SystemExit(f"{queries} holds no generated query; `workshop.doc2query` makes them.")
    return passages, pairs


def batches(pairs: Sequence[Pair], size: int, draw: random.Random) -> Iterator[list[Pair]]:
    """Yields all pairs once, in batches of at most `size` whose documents differ: a document is no negative of itself.

    A batch of one pair, which has no negative, is left out.
    """
    left = draw.sample(pairs, len(pairs))
    while left:
        batch: dict[int, Pair] = {}
        later = []
        for pair in left:
            if len(batch) < size and pair[1] not in batch:
                batch[pair[1]] = pair
            else:
                later.append(pair)
        left = later
        if len(batch) > 1:
            yield list(batch.values())
