"""Explains the score of two sparse vectors by the terms that they share."""

from collections.abc import Callable

import numpy as np

from services.chassis.errors import BadInput
from services.contracts.explanation import Match
from services.vectorstore.representation import SparseVector, Vector


def term_matches(query: SparseVector, document: Vector, name_of: Callable[[int], str]) -> tuple[Match, ...]:
    """Returns the shared terms, the highest product of weights first, equal ones by ascending term number.

    `name_of` names a term by its number. Raises BadInput for a document that is not a sparse vector.
    """
    if not isinstance(document, SparseVector):
        raise BadInput("This collection holds no weights of terms; only those of a sparse encoder are explained.")
    terms, of_query, of_document = np.intersect1d(query.terms, document.terms, assume_unique=True, return_indices=True)
    weights = zip(query.weights[of_query].tolist(), document.weights[of_document].tolist(), strict=True)
    found = [
        Match(query=name, document=name, query_weight=asked, document_weight=held, score=asked * held)
        for term, (asked, held) in zip(terms.tolist(), weights, strict=True)
        for name in [name_of(term)]
    ]
    return tuple(sorted(found, key=lambda match: -match.score))
