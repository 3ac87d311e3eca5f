"""Converts representations and vectors to the Qdrant server's models, and back. Pure."""

from typing import TypedDict, assert_never

from qdrant_client import models

from services.vectorstore.qdrant_parameters import QdrantParameters
from services.vectorstore.representation import (
    MULTI_VECTOR_LINKS,
    POOLED,
    SPARSE,
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
# A segment with at least this many kilobytes of vectors gets an HNSW graph, and searches use it.
INDEXING_THRESHOLD_KB = 1_000
OPTIMIZERS = models.OptimizersConfigDiff(indexing_threshold=INDEXING_THRESHOLD_KB)


class CollectionConfig(TypedDict):
    """The arguments of create_collection that define vectors and index, and where they are."""

    vectors_config: models.VectorParams | dict[str, models.VectorParams]
    sparse_vectors_config: dict[str, models.SparseVectorParams] | None
    shard_number: int | None
    replication_factor: int | None
    write_consistency_factor: int | None
    on_disk_payload: bool | None
    hnsw_config: models.HnswConfigDiff
    optimizers_config: models.OptimizersConfigDiff


class SearchArguments(TypedDict):
    """The arguments of query_points that define what is searched."""

    query: list[float] | list[list[float]] | models.SparseVector
    using: str | None
    prefetch: list[models.Prefetch] | None
    query_filter: models.Filter | None
    search_params: models.SearchParams
    limit: int


def collection_config(representation: Representation, parameters: QdrantParameters) -> CollectionConfig:
    """Returns the configuration of a collection for a representation."""
    vectors: models.VectorParams | dict[str, models.VectorParams] = {}
    sparse: dict[str, models.SparseVectorParams] | None = None
    on_disk = parameters.on_disk or None
    # Cosine uses Dot too: `checked_vector` has scaled the vectors, so every engine stores and returns the same bits.
    match representation:
        case Dense(dimension=dimension):
            vectors = models.VectorParams(size=dimension, distance=models.Distance.DOT, on_disk=on_disk)
            if parameters.quantisation:
                # In memory, also where the vectors are not.
                codes = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
                vectors.quantization_config = models.ScalarQuantization(scalar=codes)
        case Sparse():
            index = models.SparseIndexParams(on_disk=True) if on_disk else None
            sparse = {SPARSE: models.SparseVectorParams(index=index)}
        case MultiVector(dimension=dimension):
            vectors = _token_params(representation, parameters.hnsw_m * MULTI_VECTOR_LINKS)
            vectors.on_disk = on_disk or vectors.on_disk
            if representation.pooled:
                pooled = models.VectorParams(size=dimension, distance=models.Distance.DOT, on_disk=on_disk)
                vectors = {TOKENS: vectors, POOLED: pooled}
        case _:
            assert_never(representation)
    return {
        "vectors_config": vectors,
        "sparse_vectors_config": sparse,
        "shard_number": parameters.shard_number,
        "replication_factor": parameters.replication_factor,
        "write_consistency_factor": parameters.write_consistency_factor,
        "on_disk_payload": parameters.on_disk_payload,
        "hnsw_config": models.HnswConfigDiff(
            m=parameters.hnsw_m,
            ef_construct=parameters.hnsw_ef_construct,
            full_scan_threshold=INDEXING_THRESHOLD_KB,
        ),
        "optimizers_config": OPTIMIZERS,
    }


def _token_params(multi: MultiVector, links: int) -> models.VectorParams:
    max_sim = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
    params = models.VectorParams(size=multi.dimension, distance=models.Distance.DOT, multivector_config=max_sim)
    if not multi.pooled:
        return params.model_copy(update={"hnsw_config": models.HnswConfigDiff(m=links)})
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
        return {SPARSE: _sparse(vector)} if vector.terms.size else {}
    if isinstance(representation, MultiVector) and representation.pooled:
        return {TOKENS: _lists(vector), POOLED: _lists(pooled_vector(vector))}
    return _lists(vector)


def search_arguments(
    vector: Vector,
    representation: Representation,
    limit: int,
    where: models.Filter | None,
    beam: int | None,
    *,
    shards: int = 1,
    quantised: bool = False,
) -> SearchArguments:
    """Returns the search for the `limit` best of a checked vector; exact where `beam` is None.

    Of several shards it may return more: the `beam` best.
    """
    if shards > 1 and beam is not None:
        # Asked for 128 hits or more, the server asks each shard for fewer, by how they are probably spread, unless the
        # search is exact. Which hits it misses then depends on the number asked for, so that is the same at any depth.
        limit = max(limit, beam)
        if isinstance(vector, SparseVector):
            beam = None
    search: SearchArguments = {
        "query": _sparse(vector) if isinstance(vector, SparseVector) else _lists(vector),
        "using": SPARSE if isinstance(vector, SparseVector) else None,
        "prefetch": None,
        "query_filter": where,
        "search_params": models.SearchParams(exact=beam is None, hnsw_ef=beam),
        "limit": limit,
    }
    if isinstance(vector, SparseVector) or not isinstance(representation, MultiVector) or not representation.pooled:
        if quantised and beam is not None:
            # The vectors score again all `beam` candidates that the codes found, whatever the limit, which the server
            # multiplies by this and rounds down. An exact search reads no codes.
            candidates = models.QuantizationSearchParams(rescore=True, oversampling=max(1.0, (beam + 0.5) / limit))
            search["search_params"].quantization = candidates
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


def _sparse(vector: SparseVector) -> models.SparseVector:
    return models.SparseVector(indices=vector.terms.tolist(), values=vector.weights.tolist())


def _lists(vector: DenseVector | TokenVectors) -> list[float] | list[list[float]]:
    lists: list[float] | list[list[float]] = vector.tolist()
    return lists
