"""Converts specs, points, filters, representations and vectors to the Qdrant server's models, and back. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypedDict, assert_never

from pydantic import BaseModel, ConfigDict, ValidationError
from qdrant_client import models

from services.contracts.collections import CollectionDeclaration
from services.storage.fields import AllOf, AnyOf, Exists, NoneOf, OneOf, Requirement, Within
from services.storage.point_ids import point_id
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
    dump_representation,
    kept_vector,
    parse_representation,
    pooled_vector,
    vector_of,
)
from services.vectorstore.qdrant_parameters import QdrantParameters
from services.vectorstore.store import GenerationSpec, Point, Publication, StoredPoint

# Incremented when the layout of payload or metadata changes. A collection of another layout is not opened.
LAYOUT = "1"
PUBLISHED_AT, PUBLICATION = "published_at", "publication"
KINDS = {
    "keyword": models.PayloadSchemaType.KEYWORD,
    "number": models.PayloadSchemaType.FLOAT,
    "date": models.PayloadSchemaType.FLOAT,
}
# A segment with at least this many kilobytes of vectors gets an HNSW graph, and searches use it.
INDEXING_THRESHOLD_KB = 1_000
OPTIMIZERS = models.OptimizersConfigDiff(indexing_threshold=INDEXING_THRESHOLD_KB)


class _CollectionMetadata(BaseModel):
    """The metadata of one of our collections. Keys of newer releases are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    layout: Literal["1"]
    # Prefix of the service that created it.
    prefix: str
    representation: dict[str, str | int]
    stamp: dict[str, str]
    declaration: str
    build: str | None = None
    owner: str | None = None


def metadata_of(spec: GenerationSpec, prefix: str) -> dict[str, object]:
    """Returns the metadata that the server stores with a collection."""
    return {
        "layout": LAYOUT,
        "prefix": prefix,
        "representation": dump_representation(spec.representation),
        "stamp": dict(spec.stamp),
        "declaration": spec.declaration.model_dump_json(),
        "build": spec.build,
        **({} if spec.owner is None else {"owner": spec.owner}),
    }


def spec_of(generation: str, info: models.CollectionInfo, prefix: str) -> GenerationSpec | None:
    """Returns the spec of a collection, or None if it is not ours or has a layout of another release."""
    try:
        kept = _CollectionMetadata.model_validate(info.config.metadata)
        representation = parse_representation(kept.representation)
        declaration = CollectionDeclaration.model_validate_json(kept.declaration, extra="ignore")
    except ValidationError:
        return None
    if kept.prefix != prefix:
        return None
    return GenerationSpec(generation, representation, kept.stamp, declaration, kept.build, kept.owner)


def publication_of(info: models.CollectionInfo) -> Publication | None:
    """Returns when the collection was last published; None if never."""
    kept = info.config.metadata or {}
    at, number = kept.get(PUBLISHED_AT), kept.get(PUBLICATION)
    return None if at is None else Publication(float(at), None if number is None else int(number))


def point_struct(point: Point, representation: Representation, version: int | None) -> models.PointStruct:
    """Converts a point; the payload holds everything but the vector."""
    return models.PointStruct(
        id=str(point_id(point.id)),
        vector=qdrant_vector(kept_vector(point.vector, representation), representation),
        payload={
            "id": point.id,
            "version": version or 0,
            "content": point.content_hash,
            "passage": point.passage_hash,
            # As floats, which bounds are too: over REST the server reads both alike.
            "fields": {
                field: [value if isinstance(value, str) else float(value) for value in values]
                for field, values in point.fields.items()
            },
        },
    )


def stored_point(record: models.Record, representation: Representation, *, vectors: bool) -> tuple[str, StoredPoint]:
    """Returns the document's id and what is stored under it."""
    payload = record.payload or {}
    vector = vector_of(record.vector, representation) if vectors else None
    return payload["id"], StoredPoint(payload["content"], payload["passage"], vector)


def filter_of(where: Sequence[Requirement], exclude_ids: Sequence[str]) -> models.Filter | None:
    """Returns the filter that meets all requirements and excludes these ids; None if there is nothing to filter."""
    if not where and not exclude_ids:
        return None
    excluded: list[models.Condition] = (
        [models.HasIdCondition(has_id=[str(point_id(identity)) for identity in exclude_ids])] if exclude_ids else []
    )
    return models.Filter(must=[_condition(requirement) for requirement in where], must_not=excluded)


def ids_filter(ids: Iterable[str], before: int | None = None) -> models.Filter:
    """Returns the filter for the documents of these ids, of versions below `before`."""
    older = older_filter(before)
    condition = models.HasIdCondition(has_id=[str(point_id(identity)) for identity in ids])
    return models.Filter(must=[condition], must_not=None if older is None else older.must_not)


def contents_filter(contents: Mapping[str, str], before: int) -> models.Filter:
    """Returns the filter for the documents that have these content hashes, by id, of versions below `before`."""
    same: list[models.Condition] = []
    for identity, content in contents.items():
        its_content = models.FieldCondition(key="content", match=models.MatchValue(value=content))
        same.append(models.Filter(must=[models.HasIdCondition(has_id=[str(point_id(identity))]), its_content]))
    return ids_filter(contents, before).model_copy(update={"should": same})


def older_filter(before: int | None) -> models.Filter | None:
    """Returns the filter for documents below a version. None: of any."""
    if before is None:
        return None
    # Half a step below: over REST the server reads numbers of 16 digits, such as these, with an error.
    return models.Filter(must_not=[models.FieldCondition(key="version", range=models.Range(gt=before - 0.5))])


def _condition(required: Requirement) -> models.Condition:
    match required:
        case OneOf(field, values):
            return models.FieldCondition(key=_key(field), match=models.MatchAny(any=list(values)))
        case Within(field, ranges):
            return models.Filter(
                should=[models.FieldCondition(key=_key(field), range=models.Range(**bounds)) for bounds in ranges]
            )
        case Exists(field, present=True):
            return models.Filter(must_not=[_is_empty(field)])
        case Exists(field):
            return _is_empty(field)
        case AllOf(parts):
            return models.Filter(must=[_condition(part) for part in parts])
        case AnyOf(parts):
            return models.Filter(should=[_condition(part) for part in parts])
        case NoneOf(part):
            return models.Filter(must_not=[_condition(part)])


def _is_empty(field: str) -> models.IsEmptyCondition:
    return models.IsEmptyCondition(is_empty=models.PayloadField(key=_key(field)))


def _key(field: str) -> str:
    return f"fields.{field}"


class CollectionConfig(TypedDict):
    """The arguments of create_collection that define vectors and index, and where they are."""

    vectors_config: models.VectorParams | dict[str, models.VectorParams]
    sparse_vectors_config: dict[str, models.SparseVectorParams] | None
    shard_number: int | None
    replication_factor: int | None
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
            vectors = _token_params(representation)
            vectors.on_disk = on_disk
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
        "hnsw_config": models.HnswConfigDiff(
            m=HNSW_M, ef_construct=HNSW_EF_CONSTRUCT, full_scan_threshold=INDEXING_THRESHOLD_KB
        ),
        "optimizers_config": OPTIMIZERS,
    }


def _token_params(multi: MultiVector) -> models.VectorParams:
    max_sim = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
    params = models.VectorParams(size=multi.dimension, distance=models.Distance.DOT, multivector_config=max_sim)
    if not multi.pooled:
        return params.model_copy(update={"hnsw_config": models.HnswConfigDiff(m=HNSW_M * MULTI_VECTOR_LINKS)})
    stored = {
        "datatype": models.Datatype.TURBO4 if multi.storage == "turbo4" else models.Datatype.FLOAT16,
        # No graph: candidates come from the pooled vectors, and an exact search scores every document.
        "hnsw_config": models.HnswConfigDiff(m=0),
    }
    return params.model_copy(update=stored)


def qdrant_vector(vector: Vector, representation: Representation) -> models.VectorStruct:
    """Converts a kept vector for a point. A sparse vector without terms gives a point without a vector."""
    if isinstance(vector, SparseVector):
        return {SPARSE: _sparse(vector)} if vector.terms.size else {}
    if isinstance(representation, MultiVector) and representation.pooled:
        return {TOKENS: component_lists(vector), POOLED: component_lists(pooled_vector(vector))}
    return component_lists(vector)


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
        "query": _sparse(vector) if isinstance(vector, SparseVector) else component_lists(vector),
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
                query=component_lists(pooled_vector(vector)),
                using=POOLED,
                filter=where,
                params=search["search_params"],
                limit=max(beam, limit),
            )
        ]
    return search


def _sparse(vector: SparseVector) -> models.SparseVector:
    return models.SparseVector(indices=vector.terms.tolist(), values=vector.weights.tolist())
