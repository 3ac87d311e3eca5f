"""Converts representations and vectors to the Qdrant server's models, and back. Pure."""

from typing import TypedDict, assert_never

import numpy as np
from qdrant_client import models

from services.vectorstore.representation import (
    Dense,
    DenseVector,
    MultiVector,
    Representation,
    Sparse,
    SparseVector,
    TokenVectors,
    Vector,
)

# The server's default vector has no name; a sparse vector must have one.
_SPARSE = "sparse"


class VectorsConfig(TypedDict):
    """The arguments of create_collection that define the vectors."""

    vectors_config: models.VectorParams | dict[str, models.VectorParams]
    sparse_vectors_config: dict[str, models.SparseVectorParams] | None


class NearestArguments(TypedDict):
    """The arguments of query_points that hold the query vector."""

    query: list[float] | list[list[float]] | models.SparseVector
    using: str | None


def vectors_config(representation: Representation) -> VectorsConfig:
    """Returns the configuration of a collection for a representation."""
    # Cosine uses Dot too: `checked_vector` has scaled the vectors, so every engine stores and returns the same bits.
    match representation:
        case Dense(dimension=dimension):
            dense = models.VectorParams(size=dimension, distance=models.Distance.DOT)
            return {"vectors_config": dense, "sparse_vectors_config": None}
        case Sparse():
            return {"vectors_config": {}, "sparse_vectors_config": {_SPARSE: models.SparseVectorParams()}}
        case MultiVector(dimension=dimension):
            max_sim = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
            tokens = models.VectorParams(size=dimension, distance=models.Distance.DOT, multivector_config=max_sim)
            return {"vectors_config": tokens, "sparse_vectors_config": None}
        case _:
            assert_never(representation)


def qdrant_vector(vector: Vector) -> models.VectorStruct:
    """Converts a checked vector for a point. A sparse vector without terms gives a point without a vector."""
    if isinstance(vector, SparseVector):
        return {_SPARSE: _sparse(vector)} if vector.terms.size else {}
    return _lists(vector)


def nearest_query(vector: Vector) -> NearestArguments:
    """Returns the query for the nearest neighbours of a checked vector."""
    if isinstance(vector, SparseVector):
        return {"query": _sparse(vector), "using": _SPARSE}
    return {"query": _lists(vector), "using": None}


def vector_of(stored: models.VectorStructOutput | None, representation: Representation) -> Vector:
    """Converts the vector of a stored record."""
    match representation:
        case Sparse():
            sparse = stored.get(_SPARSE) if isinstance(stored, dict) else None
            if not isinstance(sparse, models.SparseVector):
                return SparseVector(np.empty(0, np.uint32), np.empty(0, np.float32))
            return SparseVector(np.asarray(sparse.indices, np.uint32), np.asarray(sparse.values, np.float32))
        case Dense() | MultiVector():
            return np.asarray(stored, dtype=np.float32)
        case _:
            assert_never(representation)


def _sparse(vector: SparseVector) -> models.SparseVector:
    return models.SparseVector(indices=vector.terms.tolist(), values=vector.weights.tolist())


def _lists(vector: DenseVector | TokenVectors) -> list[float] | list[list[float]]:
    lists: list[float] | list[list[float]] = vector.tolist()
    return lists
