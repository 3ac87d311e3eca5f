"""Converts representations and vectors to the Qdrant server's models, and back. Pure."""

from typing import TypedDict, assert_never

import numpy as np
from qdrant_client import models

from services.vectorstore.representation import (
    POOLED,
    TOKENS,
    Dense,
    DenseVector,
    MultiVector,
    Representation,
    Sparse,
    SparseVector,
    TokenVectors,
    Vector,
    pooled_vector,
)

# The server's default vector has no name; a sparse vector must have one.
_SPARSE = "sparse"


class VectorsConfig(TypedDict):
    """The arguments of create_collection that define the vectors."""

    vectors_config: models.VectorParams | dict[str, models.VectorParams]
    sparse_vectors_config: dict[str, models.SparseVectorParams] | None


class SearchArguments(TypedDict):
    """The arguments of query_points that define what is searched."""

    query: list[float] | list[list[float]] | models.SparseVector
    using: str | None
    prefetch: list[models.Prefetch] | None
    query_filter: models.Filter | None
    search_params: models.SearchParams
    limit: int


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
            tokens = _token_params(representation)
            if not representation.pooled:
                return {"vectors_config": tokens, "sparse_vectors_config": None}
            pooled = models.VectorParams(size=dimension, distance=models.Distance.DOT)
            return {"vectors_config": {TOKENS: tokens, POOLED: pooled}, "sparse_vectors_config": None}
        case _:
            assert_never(representation)


def _token_params(multi: MultiVector) -> models.VectorParams:
    max_sim = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
    params = models.VectorParams(size=multi.dimension, distance=models.Distance.DOT, multivector_config=max_sim)
    if not multi.pooled:
        return params
    bits = {"int8": models.TurboQuantBitSize.BITS8, "bits": models.TurboQuantBitSize.BITS1}.get(multi.storage)
    # `always_ram` and `on_disk` rather than `memory`, which servers before 1.19 do not know.
    codes = models.TurboQuantization(turbo=models.TurboQuantQuantizationConfig(bits=bits, always_ram=True))
    half = {
        "datatype": models.Datatype.FLOAT16,
        # No graph: candidates come from the pooled vectors, and an exact search scores every document.
        "hnsw_config": models.HnswConfigDiff(m=0),
        "on_disk": bits is not None,
        "quantization_config": codes if bits else None,
    }
    return params.model_copy(update=half)


def qdrant_vector(vector: Vector, representation: Representation) -> models.VectorStruct:
    """Converts a kept vector for a point. A sparse vector without terms gives a point without a vector."""
    if isinstance(vector, SparseVector):
        return {_SPARSE: _sparse(vector)} if vector.terms.size else {}
    if isinstance(representation, MultiVector) and representation.pooled:
        return {TOKENS: _lists(vector), POOLED: _lists(pooled_vector(vector))}
    return _lists(vector)


def search_arguments(
    vector: Vector, representation: Representation, limit: int, where: models.Filter | None, beam: int | None
) -> SearchArguments:
    """Returns the search for the `limit` best of a checked vector; exact where `beam` is None."""
    search: SearchArguments = {
        "query": _sparse(vector) if isinstance(vector, SparseVector) else _lists(vector),
        "using": _SPARSE if isinstance(vector, SparseVector) else None,
        "prefetch": None,
        "query_filter": where,
        "search_params": models.SearchParams(exact=beam is None, hnsw_ef=beam),
        "limit": limit,
    }
    if isinstance(vector, SparseVector) or not isinstance(representation, MultiVector) or not representation.pooled:
        return search
    search["using"] = TOKENS
    if beam is not None:
        search["prefetch"] = [
            models.Prefetch(
                query=_lists(pooled_vector(vector)),
                using=POOLED,
                filter=where,
                params=search["search_params"],
                limit=max(beam, limit),
            )
        ]
        # The server would score some of the candidates anew by the vectors on the disk: how many depends on `limit`.
        codes_only = models.QuantizationSearchParams(rescore=False)
        search["search_params"] = models.SearchParams(quantization=codes_only)
    return search


def vector_of(stored: models.VectorStructOutput | None, representation: Representation) -> Vector:
    """Converts the vector of a stored record."""
    match representation:
        case Sparse():
            sparse = stored.get(_SPARSE) if isinstance(stored, dict) else None
            if not isinstance(sparse, models.SparseVector):
                return SparseVector(np.empty(0, np.uint32), np.empty(0, np.float32))
            return SparseVector(np.asarray(sparse.indices, np.uint32), np.asarray(sparse.values, np.float32))
        case Dense() | MultiVector():
            return np.asarray(stored[TOKENS] if isinstance(stored, dict) else stored, dtype=np.float32)
        case _:
            assert_never(representation)


def _sparse(vector: SparseVector) -> models.SparseVector:
    return models.SparseVector(indices=vector.terms.tolist(), values=vector.weights.tolist())


def _lists(vector: DenseVector | TokenVectors) -> list[float] | list[list[float]]:
    lists: list[float] | list[list[float]] = vector.tolist()
    return lists
