"""Explains scores: those of sparse vectors by the terms that they share, MaxSim by the pairs of tokens that it sums."""

import asyncio
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from services.chassis.errors import BadInput
from services.contracts.explanation import Match
from services.storage.representation import SparseVector, TokenVectors, Vector


async def matches_of_all(
    query: SparseVector, documents: Sequence[Vector], name_of: Callable[[int], str]
) -> list[tuple[Match, ...]]:
    """Returns the terms that each document shares with the query, on a thread: 1,000 documents have 30,000 matches.

    The highest product of weights comes first, equal ones by ascending term number. `name_of` names a term by its
    number. Raises BadInput for a document that is not a sparse vector.
    """
    return await asyncio.to_thread(lambda: [_matches(query, document, name_of) for document in documents])


def _matches(query: SparseVector, document: Vector, name_of: Callable[[int], str]) -> tuple[Match, ...]:
    if not isinstance(document, SparseVector):
        raise BadInput("This collection holds no weights of terms; only those of a sparse encoder are explained.")
    terms, of_query, of_document = np.intersect1d(query.terms, document.terms, assume_unique=True, return_indices=True)
    weights = zip(query.weights[of_query].tolist(), document.weights[of_document].tolist(), strict=True)
    matches = [
        Match(query=name, document=name, query_weight=wanted, document_weight=held, score=wanted * held)
        for term, (wanted, held) in zip(terms.tolist(), weights, strict=True)
        for name in [name_of(term)]
    ]
    return tuple(sorted(matches, key=lambda match: -match.score))


def best_matches(
    query: TokenVectors,
    query_tokens: Sequence[str],
    query_weights: NDArray[np.float32],
    passage: Vector,
    passage_tokens: Sequence[str],
) -> tuple[Match, ...]:
    """Returns one match for each token of the query, the highest score first; they sum up to weighted MaxSim.

    Vectors are fp32 [tokens, dimension], without the query weights [tokens]. Raises BadInput if tokens and rows differ.
    """
    if not isinstance(passage, np.ndarray) or passage.shape != (len(passage_tokens), query.shape[1]):
        raise BadInput("This collection does not hold the token vectors of this text; load it again.")
    products = query @ passage.T
    best, largest = products.argmax(axis=1).tolist(), products.max(axis=1).tolist()
    matches = [
        Match(
            query=token,
            document=passage_tokens[place],
            query_weight=weight,
            document_weight=product,
            score=weight * product,
        )
        for token, weight, place, product in zip(query_tokens, query_weights.tolist(), best, largest, strict=True)
    ]
    return tuple(sorted(matches, key=lambda match: -match.score))
