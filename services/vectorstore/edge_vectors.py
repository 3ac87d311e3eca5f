"""Representations and vectors as Qdrant Edge's, and back. Pure."""

from typing import assert_never

import numpy as np
import qdrant_edge as edge

from services.storage.edge_files import GenerationRecord
from services.storage.edge_generation import SEARCH_THREADS
from services.vectorstore.representation import (
    Dense,
    DenseVector,
    MultiVector,
    Representation,
    Sparse,
    SparseVector,
    TokenVectors,
    Vector,
    as_data,
    of_data,
)

# Kilobytes of vectors in a segment from which it gets an HNSW graph: 667 vectors of 384 dimensions.
INDEXING_THRESHOLD_KB = 1_000
# Edge's default vector has no name; a sparse one must have one.
_SPARSE = "sparse"


def kept_representation(representation: Representation) -> tuple[int, dict[str, str | int] | None]:
    """A record's `dimension` and `representation`: the dimension alone for dense vectors by dot product, as ever."""
    match representation:
        case Dense(dimension=dimension, distance="dot"):
            return dimension, None
        case _:
            return 1, as_data(representation)


def representation_of(record: GenerationRecord) -> Representation:
    """The representation that a record keeps. Raises ValueError, in words that can be shown, for an unknown one."""
    if record.representation is None:
        return Dense(record.dimension)
    try:
        return of_data(record.representation)
    except ValueError as error:
        raise ValueError(f"this program does not know its representation {record.representation}.") from error


def shard_config(record: GenerationRecord) -> edge.EdgeConfig:
    """How a shard keeps vectors of the record's representation."""
    dense: edge.EdgeVectorParams | None = None
    sparse: dict[str, edge.EdgeSparseVectorParams] | None = None
    # Dot for cosine too: `checked` has scaled the vectors, so that every engine keeps and returns the same bits.
    match representation := representation_of(record):
        case Dense(dimension=dimension):
            dense = edge.EdgeVectorParams(size=dimension, distance=edge.Distance.Dot)
        case Sparse():
            sparse = {_SPARSE: edge.EdgeSparseVectorParams()}
        case MultiVector(dimension=dimension):
            max_sim = edge.MultiVectorConfig(edge.MultiVectorComparator.MaxSim)
            dense = edge.EdgeVectorParams(size=dimension, distance=edge.Distance.Dot, multivector_config=max_sim)
        case _:
            assert_never(representation)
    return edge.EdgeConfig(
        vectors=dense,
        sparse_vectors=sparse,
        # With the default full_scan_threshold (10 MB) a graph is built and then not used below 6,800 vectors:
        # `indexed` would promise an approximate search that is none.
        hnsw_config=edge.HnswIndexConfig(m=16, ef_construct=128, full_scan_threshold=INDEXING_THRESHOLD_KB),
        optimizers=edge.EdgeOptimizersConfig(indexing_threshold=INDEXING_THRESHOLD_KB),
        max_search_threads=SEARCH_THREADS,
    )


def points_to_index(record: GenerationRecord) -> int:
    """Points from which an optimisation may build an index; of sparse and multi-vectors Edge alone knows the size."""
    match representation_of(record):
        case Dense(dimension=dimension):
            return -(-INDEXING_THRESHOLD_KB * 1_000 // (dimension * 4))
        case _:
            return 1


def edge_vector(vector: Vector) -> "edge.Vector":  # a name of the stubs alone
    """A checked vector, for a point. A sparse one without terms is a point without a vector."""
    if isinstance(vector, SparseVector):
        return {_SPARSE: _sparse(vector)} if vector.terms.size else {}
    return _lists(vector)


def nearest(vector: Vector) -> edge.Query:
    """The query for the nearest of a checked vector."""
    if isinstance(vector, SparseVector):
        return edge.Query.Nearest(_sparse(vector), using=_SPARSE)
    return edge.Query.Nearest(_lists(vector))


def vector_of(stored: "edge.Vector | None", representation: Representation) -> Vector:
    """The vector of a record that was read with its vectors."""
    match representation:
        case Sparse():
            sparse = stored.get(_SPARSE) if isinstance(stored, dict) else None
            if not isinstance(sparse, edge.SparseVector):
                return SparseVector(np.empty(0, np.uint32), np.empty(0, np.float32))
            return SparseVector(np.asarray(sparse.indices, np.uint32), np.asarray(sparse.values, np.float32))
        case _:
            return np.asarray(stored, dtype=np.float32)


def _sparse(vector: SparseVector) -> edge.SparseVector:
    return edge.SparseVector(vector.terms.tolist(), vector.weights.tolist())


def _lists(vector: DenseVector | TokenVectors) -> list[float] | list[list[float]]:
    lists: list[float] | list[list[float]] = vector.tolist()
    return lists
