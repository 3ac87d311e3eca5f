"""Explains MaxSim by the pairs of tokens whose dot products it sums."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from services.chassis.errors import BadInput
from services.contracts.explanation import Match
from services.vectorstore.representation import TokenVectors, Vector


def best_matches(
    query: TokenVectors,
    query_tokens: Sequence[str],
    query_weights: NDArray[np.float32],
    passage: Vector,
    passage_tokens: Sequence[str],
) -> tuple[Match, ...]:
    """Returns one match for each token of the query, the highest score first; they sum up to weighted MaxSim.

    Vectors are fp32 [tokens, dimension], those of the query without its weights [tokens]. Raises BadInput if the
    passage's are not one for each of its tokens.
    """
    if not isinstance(passage, np.ndarray) or passage.shape != (len(passage_tokens), query.shape[1]):
        raise BadInput("This collection does not hold the token vectors of this text; load it again.")
    products = query @ passage.T
    best, largest = products.argmax(axis=1).tolist(), products.max(axis=1).tolist()
    found = [
        Match(
            query=token,
            document=passage_tokens[place],
            query_weight=weight,
            document_weight=product,
            score=weight * product,
        )
        for token, weight, place, product in zip(query_tokens, query_weights.tolist(), best, largest, strict=True)
    ]
    return tuple(sorted(found, key=lambda match: -match.score))
