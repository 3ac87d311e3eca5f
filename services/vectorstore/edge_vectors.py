"""Converts representations and vectors to Qdrant Edge's types, and back. Pure."""

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
    dump_representation,
    parse_representation,
)

# A segment with at least this many kilobytes of vectors gets an HNSW graph: 667 vectors of 384 dimensions.
INDEXING_THRESHOLD_KB = 1_000
# Edge's default vector has no name; a sparse vector must have one.
_SPARSE = "sparse"


def kept_representation(representation: Representation) -> tuple[int, dict[str, str | int] | None]:
    """Returns `dimension` and `representation` of a record: for dense vectors by dot product only the dimension is set,
    as in earlier releases."""
    match representation:
        case Dense(dimension=dimension, distance="dot"):
            return dimension, None
        case _:
            return 1, dump_representation(representation)


def representation_of(record: GenerationRecord) -> Representation:
    """Returns the representation of a record. Raises ValueError, with a message for users, if it is unknown."""
    if record.representation is None:
        return Dense(record.dimension)
    try:
        return parse_representation(record.representation)
    except ValueError as error:
        raise ValueError(f"this program does not know its representation {record.representation}.") from error


def shard_config(record: GenerationRecord) -> edge.EdgeConfig:
    """Returns the configuration of a shard for the record's representation."""
    dense: edge.EdgeVectorParams | None = None
    sparse: dict[str, edge.EdgeSparseVectorParams] | None = None
    # Cosine uses Dot too: `checked_vector` has scaled the vectors, so every engine stores and returns the same bits.
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
        # With the default full_scan_threshold (10 MB) a graph is built but not used below 6,800 vectors: `indexed`
        # would report an index that searches ignore.
        hnsw_config=edge.HnswIndexConfig(m=16, ef_construct=128, full_scan_threshold=INDEXING_THRESHOLD_KB),
        optimizers=edge.EdgeOptimizersConfig(indexing_threshold=INDEXING_THRESHOLD_KB),
        max_search_threads=SEARCH_THREADS,
    )


def points_to_index(record: GenerationRecord) -> int:
    """Returns the number of points from which an optimisation may build an index; 1 where only Edge knows the size."""
    match representation := representation_of(record):
        case Dense(dimension=dimension):
            return -(-INDEXING_THRESHOLD_KB * 1_000 // (dimension * 4))
        case Sparse() | MultiVector():
            return 1
        case _:
            assert_never(representation)


def edge_vector(vector: Vector) -> "edge.Vector":  # exists in the type stubs only
    """Converts a checked vector for a point. A sparse vector without terms gives a point without a vector."""
    if isinstance(vector, SparseVector):
        return {_SPARSE: _sparse(vector)} if vector.terms.size else {}
    return _lists(vector)


def nearest_query(vector: Vector) -> edge.Query:
    """Returns the query for the nearest neighbours of a checked vector."""
    if isinstance(vector, SparseVector):
        return edge.Query.Nearest(_sparse(vector), using=_SPARSE)
    return edge.Query.Nearest(_lists(vector))


def vector_of(stored: "edge.Vector | None", representation: Representation) -> Vector:
    """Converts the vector of a stored record."""
    match representation:
        case Sparse():
            sparse = stored.get(_SPARSE) if isinstance(stored, dict) else None
            if not isinstance(sparse, edge.SparseVector):
                return SparseVector(np.empty(0, np.uint32), np.empty(0, np.float32))
            return SparseVector(np.asarray(sparse.indices, np.uint32), np.asarray(sparse.values, np.float32))
        case Dense() | MultiVector():
            return np.asarray(stored, dtype=np.float32)
        case _:
            assert_never(representation)


def _sparse(vector: SparseVector) -> edge.SparseVector:
    return edge.SparseVector(vector.terms.tolist(), vector.weights.tolist())


def _lists(vector: DenseVector | TokenVectors) -> list[float] | list[list[float]]:
    lists: list[float] | list[list[float]] = vector.tolist()
    return lists
