"""Converts representations and vectors to Qdrant Edge's types, and back. Pure."""

from typing import assert_never

import qdrant_edge as edge

from services.storage.edge_files import GenerationRecord
from services.storage.edge_generation import SEARCH_THREADS
from services.storage.representation import (
    HNSW_EF_CONSTRUCT,
    HNSW_M,
    MULTI_VECTOR_LINKS,
    POOLED,
    SPARSE,
    TOKENS,
    Dense,
    MultiVector,
    Representation,
    Sparse,
    SparseVector,
    Vector,
    component_lists,
    parse_representation,
    pooled_vector,
)

# A segment with at least this many kilobytes of vectors gets an HNSW graph: 667 vectors of 384 dimensions.
INDEXING_THRESHOLD_KB = 1_000


def representation_of(record: GenerationRecord) -> Representation:
    """Returns the representation of a record. Raises ValueError, with a message for users, if it is unknown."""
    try:
        return parse_representation(record.representation)
    except ValueError as error:
        raise ValueError(f"this program does not know its representation {record.representation}.") from error


def shard_config(record: GenerationRecord) -> edge.EdgeConfig:
    """Returns the configuration of a shard for the record's representation."""
    dense: edge.EdgeVectorParams | dict[str, edge.EdgeVectorParams] | None = None
    sparse: dict[str, edge.EdgeSparseVectorParams] | None = None
    # Cosine uses Dot too: `checked_vector` has scaled the vectors, so every engine stores and returns the same bits.
    match representation := representation_of(record):
        case Dense(dimension=dimension):
            dense = edge.EdgeVectorParams(size=dimension, distance=edge.Distance.Dot)
        case Sparse():
            sparse = {SPARSE: edge.EdgeSparseVectorParams()}
        case MultiVector(dimension=dimension):
            dense = _token_params(representation)
            if representation.pooled:
                pooled = edge.EdgeVectorParams(size=dimension, distance=edge.Distance.Dot)
                dense = {TOKENS: dense, POOLED: pooled}
        case _:
            assert_never(representation)
    return edge.EdgeConfig(
        vectors=dense,
        sparse_vectors=sparse,
        hnsw_config=_hnsw(HNSW_M),
        optimizers=edge.EdgeOptimizersConfig(indexing_threshold=INDEXING_THRESHOLD_KB),
        max_search_threads=SEARCH_THREADS,
    )


def _hnsw(links: int) -> edge.HnswIndexConfig:
    # The default full_scan_threshold (10 MB) would leave graphs of fewer than 6,800 vectors unused, although `indexed`.
    return edge.HnswIndexConfig(links, HNSW_EF_CONSTRUCT, full_scan_threshold=INDEXING_THRESHOLD_KB)


def _token_params(multi: MultiVector) -> edge.EdgeVectorParams:
    max_sim = edge.MultiVectorConfig(edge.MultiVectorComparator.MaxSim)
    if not multi.pooled:
        return edge.EdgeVectorParams(
            multi.dimension,
            edge.Distance.Dot,
            multivector_config=max_sim,
            hnsw_config=_hnsw(HNSW_M * MULTI_VECTOR_LINKS),
        )
    datatype = edge.VectorStorageDatatype.Float16
    if multi.storage == "turbo4":
        datatype = edge.VectorStorageDatatype.Turbo4  # type: ignore[attr-defined]  # left out of its stubs
    return edge.EdgeVectorParams(
        multi.dimension,
        edge.Distance.Dot,
        multivector_config=max_sim,
        datatype=datatype,
        # No graph: candidates come from the pooled vectors, and an exact search scores every document.
        hnsw_config=_hnsw(0),
    )


def points_to_index(record: GenerationRecord) -> int:
    """Returns the number of points from which an optimisation may build an index; 1 where only Edge knows the size."""
    match representation_of(record):
        case Dense(dimension=dimension):
            return -(-INDEXING_THRESHOLD_KB * 1_000 // (dimension * 4))
        case Sparse() | MultiVector():
            return 1


def edge_vector(vector: Vector, representation: Representation) -> "edge.Vector":  # exists in the type stubs only
    """Converts a kept vector for a point. A sparse vector without terms gives a point without a vector."""
    if isinstance(vector, SparseVector):
        return {SPARSE: _sparse(vector)} if vector.terms.size else {}
    if isinstance(representation, MultiVector) and representation.pooled:
        return {TOKENS: component_lists(vector), POOLED: component_lists(pooled_vector(vector))}
    return component_lists(vector)


def search_request(
    vector: Vector, representation: Representation, limit: int, where: edge.Filter | None, beam: int | None
) -> edge.QueryRequest:
    """Returns the search for a checked vector that gives `limit` points; exact where `beam` is None."""
    params = edge.SearchParams(exact=beam is None, hnsw_ef=beam)
    if isinstance(vector, SparseVector):
        query, candidates = edge.Query.Nearest(_sparse(vector), using=SPARSE), None
    elif not isinstance(representation, MultiVector) or not representation.pooled:
        query, candidates = edge.Query.Nearest(component_lists(vector)), None
    else:
        query, candidates = edge.Query.Nearest(component_lists(vector), using=TOKENS), None
        if beam is not None:
            pooled = edge.Query.Nearest(component_lists(pooled_vector(vector)), using=POOLED)
            candidates = [edge.Prefetch(max(beam, limit), query=pooled, params=params, filter=where)]
    return edge.QueryRequest(limit, query=query, prefetches=candidates, filter=where, params=params)


def _sparse(vector: SparseVector) -> edge.SparseVector:
    return edge.SparseVector(vector.terms.tolist(), vector.weights.tolist())
