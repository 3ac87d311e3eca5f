"""Owns the families of backends, one row each: what a pipeline may ask of a backend, what its scores can be.

Settings, catalog and walker read this table; they name no family themselves.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Family:
    """What every backend of a family does.

    `retrieves`: it holds collections, takes documents and answers searches. `presets` and `exact`: options that a
    retrieve from it may have. `document_store`: it gives documents by id. `reranks`: it scores passages.

    `least_score` is the lowest score that any query can give any document, or None where no such number is known. The
    normalisation theoretical-min puts its 0 there and refuses None: a number that is too high would cut the lowest
    scores to 0, one that is too low would flatten all of them.
    """

    retrieves: bool = False
    presets: bool = False
    exact: bool = False
    least_score: float | None = None
    document_store: bool = False
    reranks: bool = False


# The least scores: BM25 sums non-negative weights of the terms that match; a cosine is at least -1. A family to come:
# an inner product of sparse vectors is at least 0 where no weight is negative (encoders that end in a ReLU, such as
# SPLADE), else it has no least score; MaxSim adds a cosine for each token of the query, so its lowest sum differs from
# query to query: None.
FAMILIES: Mapping[str, Family] = {
    "lexical": Family(retrieves=True, presets=True, least_score=0.0, document_store=True),
    "dense": Family(retrieves=True, exact=True, least_score=-1.0),
    "reranker": Family(reranks=True),
}


def named(has: Callable[[Family], bool]) -> str:
    """Returns the families that have something, for a sentence: `lexical or dense`."""
    return " or ".join(name for name, family in FAMILIES.items() if has(family))
