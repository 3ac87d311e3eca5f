"""Owns the families of backends, one row each: which stages and options they serve, and their least score.

Settings, catalog and walker read this table; they name no family themselves.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Family:
    """The abilities of every backend of a family.

    `retrieves`: it stores collections, indexes documents and answers searches. `by_default`: collections that name no
    backends live on the first one of it; `added`: so do new ones, which then name it. `presets` and `exact`: the
    options that a retrieve may have. `document_store`: it returns documents by id. `takes_vectors`: it stores vectors
    that callers send, and returns them. `reranks`: it scores passages. `explains`: it returns what in a document
    matched a query.

    `approximate`: its searches that are not `exact` have a `beam`, and a search for more hits may begin with others
    (Qdrant widens a beam that is smaller than the number of hits). Else a search for n hits gives the first n of every
    deeper one, so one deep search gives a stage's candidates and what follows them.

    `least_score` is the lowest score that any query can give any document, or None if there is no such bound. The
    normalisation theoretical-min maps it to 0 and refuses None: a bound that is too high would cut the lowest scores
    to 0, one that is too low would compress all of them.
    """

    retrieves: bool = False
    by_default: bool = False
    added: bool = False
    presets: bool = False
    exact: bool = False
    approximate: bool = False
    least_score: float | None = None
    document_store: bool = False
    takes_vectors: bool = False
    reranks: bool = False
    explains: bool = False


# The least scores: BM25 sums non-negative weights of matching terms; a cosine is at least -1; sparse vectors without
# negative weights (SPLADE and SPARTA end in a ReLU) have an inner product of at least 0. MaxSim sums a cosine for each
# token of the query, so its lower bound depends on the query: None.
FAMILIES: Mapping[str, Family] = {
    "lexical": Family(retrieves=True, by_default=True, presets=True, least_score=0.0, document_store=True),
    "dense": Family(
        retrieves=True, by_default=True, exact=True, approximate=True, least_score=-1.0, takes_vectors=True
    ),
    "sparse": Family(retrieves=True, least_score=0.0, explains=True),
    "late_interaction": Family(retrieves=True, added=True, exact=True, approximate=True, reranks=True, explains=True),
    "reranker": Family(reranks=True),
}

# The backends that a stack can start, by name, and their families.
STARTABLE: Mapping[str, str] = {**{name: name for name in FAMILIES}, "dense_bge": "dense", "dense_e5": "dense"}


def least_score(family: str, stamp: Mapping[str, str]) -> float | None:
    """Returns the least score of a family's backend over a generation with this stamp.

    Dot products of vectors that are not normalised have none, though cosines have.
    """
    return None if stamp.get("normalise") == "false" else FAMILIES[family].least_score


def first_backends(families: Mapping[str, str], has: Callable[[Family], bool]) -> frozenset[str]:
    """Returns the first of these backends, given with their families, of each family that fits."""
    first = {family: name for name, family in reversed(list(families.items())) if has(FAMILIES[family])}
    return frozenset(first.values())


def family_names(has: Callable[[Family], bool]) -> str:
    """Returns the names of the families that fit, joined for a message: `lexical or dense`."""
    return " or ".join(name for name, family in FAMILIES.items() if has(family))
