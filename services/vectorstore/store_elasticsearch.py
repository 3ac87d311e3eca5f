"""Implements VectorStore for dense vectors on an Elasticsearch server: an index for each generation.

An index holds each vector in two fields: one with an HNSW graph, and one without, which an exact search scans on the
server. The vector itself is in the source, as base64: what Elasticsearch returns of its own fields differs by release.
"""

import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Literal

import numpy as np

from services.chassis.errors import BadInput, ProblemError, UnknownCollection
from services.contracts.collections import Unusable
from services.contracts.generations import in_order, name_of
from services.contracts.health import Check
from services.contracts.scored import Ranking, Scored, paired
from services.storage.elasticsearch import indices
from services.storage.elasticsearch.answers import ElasticsearchAnswer, Fetched, FetchedAnswer
from services.storage.elasticsearch.bulk import (
    VERSIONS_KEPT,
    Operation,
    changed_documents,
    overtaken_ids,
    send_bulk,
    version_parameters,
)
from services.storage.elasticsearch.client import ElasticsearchClients
from services.storage.elasticsearch.searching import fetch_documents, field_clause, field_types, ranked
from services.storage.fields import FieldValue
from services.storage.generation_checks import DEFAULT_MOST_GENERATIONS
from services.storage.representation import Dense, DenseVector, SparseVector, Vector, checked_vector, kept_vector
from services.storage.ties import settle_ties
from services.vectorstore.store import (
    NO_STAMP,
    Counts,
    GenerationSpec,
    Point,
    Publication,
    StoredPoint,
    VectorQuery,
    parts_to_send,
    refuse_other_representation,
    refuse_other_spec,
)

# Most candidates of a search, and most hits: Elasticsearch refuses more.
MOST_CANDIDATES = 10_000
# The fields of a vector: with a graph, and without one.
_GRAPH, _SCANNED = "vector", "scanned"


class VectorIndexMeta(indices.GenerationMeta):
    """The `_meta` in the mapping of an index of vectors."""

    layout: Literal["vectors 2"]
    representation: Dense


class VectorSource(ElasticsearchAnswer):
    """The requested parts of a stored vector: its hashes, and fp32 [dimension], little-endian, as base64."""

    hash: str
    passage: str
    fp32: str = ""
    fields: dict[str, FieldValue] = {}


Held = indices.HeldGeneration[VectorIndexMeta]


class ElasticsearchStore:
    """Implements VectorStore, and refuses other representations than Dense (BadInput).

    Nothing is refreshed while a generation is built, except by what reads all of it; what is written to a published one
    is searchable at once, with ELASTICSEARCH_REFRESH=interval within a second.
    """

    def __init__(
        self,
        clients: ElasticsearchClients,
        prefix: str,
        most_generations: int = DEFAULT_MOST_GENERATIONS,
        clock: Callable[[], float] = time.time,
        quantisation: Literal["int8"] | None = None,
    ) -> None:
        """Does not connect yet: a service may start before its Elasticsearch. `clock` returns Unix seconds."""
        self._clients = clients
        self._quantisation = quantisation
        self.stamp = NO_STAMP if quantisation is None else {"index": f"quantisation={quantisation}"}
        self._indices = indices.GenerationIndices(clients, prefix, VectorIndexMeta, most_generations, clock)

    @property
    def engine(self) -> str:
        """The version of the server that answered first."""
        return f"elasticsearch {self._indices.last_version or ''}".rstrip()

    async def ready(self) -> Check:
        """Returns whether the cluster serves requests; never raises."""
        check = await self._indices.check("store")
        with suppress(ProblemError):
            await self._indices.version()
        return check

    async def generations(self) -> tuple[str, ...]:
        """Returns the generations whose indices have our prefix and were made by a service of this prefix."""
        return in_order(tuple(await self._indices.all()))

    async def unusable(self) -> tuple[Unusable, ...]:
        """Returns nothing: the server opens its indices itself, and reports failures in its health."""
        return ()

    async def create(self, spec: GenerationSpec) -> None:
        """Creates the index. Its `_meta` holds the spec."""
        if not isinstance(spec.representation, Dense):
            with suppress(UnknownCollection):
                refuse_other_representation(await self.spec(spec.generation), spec.representation)
            raise BadInput(
                f"{spec.generation}: on Elasticsearch only dense vectors are served, not {spec.representation}; serve "
                "these on Edge or Qdrant (a setting such as SPARSE_STORE)."
            )
        meta = VectorIndexMeta(
            layout="vectors 2",
            prefix=self._indices.prefix,
            declaration=spec.declaration,
            stamp=dict(spec.stamp),
            build=spec.build,
            owner=spec.owner,
            representation=spec.representation,
        )
        held = await self._indices.create(spec.generation, _index_body(meta, self._quantisation))
        refuse_other_spec(_spec_of(held), spec)

    async def spec(self, generation: str) -> GenerationSpec:
        """Returns the spec, from the index' `_meta`, read at most a second ago."""
        return _spec_of(await self._indices.known(generation))

    async def counts(self, generation: str) -> Counts:
        """Returns the number of documents, each of which the graph has, and the bytes of one copy of the index.

        Without a key that writes, it counts the documents of a build that were refreshed last.
        """
        await (self._visible if self._clients.may_write else self._indices.known)(generation)
        index = self._indices.index(generation)
        size = (await self._indices.sizes(index)).get(index, indices.NO_SIZE)
        return Counts(documents=size.documents, indexed=size.documents, bytes=size.bytes)

    async def stored(self, generation: str, ids: Sequence[str], *, vectors: bool) -> Mapping[str, StoredPoint]:
        """Reads by realtime get, also what is not refreshed yet."""
        await self._indices.known(generation)
        fetched = await self._fetched(generation, ids, ["hash", "passage", *(["fp32"] if vectors else [])])
        return {
            document.id: StoredPoint(source.hash, source.passage, _decoded(source.fp32) if vectors else None)
            for document in fetched
            if (source := document.source) is not None
        }

    async def upsert(self, generation: str, points: Sequence[Point], version: int | None = None) -> Mapping[str, int]:
        """Writes in bulk requests, and retries what Elasticsearch rejected for a full queue."""
        held = await self._indices.known(generation)
        operations = [_index_operation(point, held.meta.representation, version) for point in points]
        newer: dict[str, int] = {}
        for part in parts_to_send(points):
            newer |= (await self._write(held, operations[part], version))[1]
        return newer

    async def raise_versions(self, generation: str, contents: Mapping[str, str], version: int) -> None:
        """Writes the documents again, as they are: the server has no other way to change a version of ours."""
        held = await self._indices.known(generation)
        fetched = await self._fetched(generation, list(contents), ["hash", "passage", "fp32", "fields"])
        as_kept = replace(held.meta.representation, distance="dot")  # scaled already, where it is compared by cosine
        points = [
            Point(stored.id, _decoded(source.fp32), source.hash, source.passage, source.fields)
            for stored in fetched
            if (source := stored.source) and source.hash == contents[stored.id] and stored.version < version
        ]
        operations = [_index_operation(point, as_kept, version) for point in points]
        await self._write(held, operations, version)

    async def delete(
        self, generation: str, ids: Sequence[str], version: int | None = None
    ) -> tuple[int, Mapping[str, int]]:
        """Deletes in one bulk request."""
        held = await self._indices.known(generation)
        actions = {identity: {"_id": identity, **version_parameters(version)} for identity in ids}
        operations = [Operation(identity, ({"delete": action},)) for identity, action in actions.items()]
        return await self._write(held, operations, version)

    async def search(self, generation: str, query: VectorQuery) -> Ranking:
        """Returns the best by dot product, ties by ascending id. `num_candidates` is the beam."""
        held = await self._visible(generation)
        vector = _dense(query.vector, held)
        where: dict[str, indices.Json] = {}
        if query.where or query.exclude_ids:
            excluded = [{"ids": {"values": list(query.exclude_ids)}}] if query.exclude_ids else []
            met = [field_clause(requirement) for requirement in query.where]
            where["filter"] = {"bool": {"filter": met, "must_not": excluded}}

        async def fetch(limit: int) -> Sequence[Scored]:
            most = min(limit, MOST_CANDIDATES)
            candidates = most if query.exact else min(max(query.beam, most), MOST_CANDIDATES)
            knn = {
                "field": _SCANNED if query.exact else _GRAPH,
                "query_vector": vector.tolist(),
                "k": most,
                "num_candidates": candidates,
                **where,
            }
            if self._quantisation and not query.exact:
                # The vectors score again all candidates that the codes found, whatever the limit.
                knn |= {"k": candidates, "rescore_vector": {"oversample": 1.0}}
            index = self._indices.index(generation)
            hits = await ranked(self._clients.reading, index, generation, {"knn": knn}, most, params={})
            return paired((hit.id, _dot_product(hit.score)) for hit in hits)

        with self._indices.forget_if_gone(generation):
            return await settle_ties(fetch, query.top)

    async def scores(self, generation: str, ids: Sequence[str], vector: Vector) -> Mapping[str, float]:
        """Reads the vectors of these ids and computes their dot products here."""
        wanted = _dense(vector, await self._indices.known(generation))
        stored = await self.stored(generation, ids, vectors=True)
        vectors = {identity: point.vector for identity, point in stored.items()}
        return {key: float(kept @ wanted) for key, kept in vectors.items() if isinstance(kept, np.ndarray)}

    async def finish(self, generation: str) -> None:
        """Refreshes, and merges a build to one segment with one graph."""
        await self._indices.finish(await self._indices.known(generation))

    async def publish(self, generation: str, publication: int | None = None) -> None:
        """Records the publication, then moves the alias of the name in one request."""
        await self._indices.publish(generation, publication)

    async def published(self) -> Mapping[str, str]:
        """Returns the published generations, from the aliases."""
        held = (await self._indices.all()).values()
        return {name_of(index.generation): index.generation for index in held if index.published}

    async def publication(self, generation: str) -> Publication | None:
        """Returns the publication, from the index' `_meta`."""
        meta = (await self._indices.held(generation)).meta
        return None if meta.published_at is None else Publication(meta.published_at, meta.publication)

    async def digest(self, generation: str) -> str:
        """Computes the digest of all documents."""
        await self._visible(generation)
        with self._indices.forget_if_gone(generation):
            return await self._indices.digest(generation)

    async def drop(self, generation: str) -> None:
        """Deletes the index with its aliases."""
        await self._indices.drop(generation)

    async def close(self) -> None:
        """Closes the connections."""
        await self._clients.close()

    async def _visible(self, generation: str) -> Held:
        """Returns the generation, once all acknowledged writes are visible: those to a build were not refreshed."""
        held = await self._indices.known(generation)
        if not held.published:
            with self._indices.forget_if_gone(generation):
                await self._indices.refresh(generation)
        return held

    async def _fetched(
        self, generation: str, ids: Sequence[str], parts: Sequence[str]
    ) -> tuple[Fetched[VectorSource], ...]:
        if not ids:
            return ()
        with self._indices.forget_if_gone(generation):
            parse = FetchedAnswer[VectorSource].model_validate_json
            return await fetch_documents(self._clients.reading, self._indices.index(generation), ids, parts, parse)

    async def _write(
        self, held: Held, operations: Sequence[Operation], version: int | None
    ) -> tuple[int, dict[str, int]]:
        """Returns how many documents it wrote or removed, and the versions of those that stay, by id: of a deleted one
        at least `version`. Raises Overloaded or UpstreamFailed if one failed: all can be sent again."""
        with self._indices.forget_if_gone(held.generation):
            refresh = self._indices.refresh_of_writes(held)
            results = await send_bulk(
                self._clients.writing, self._indices.writing(held.generation), operations, refresh=refresh
            )
        changed = changed_documents(operations, results)
        fetched = await self._fetched(held.generation, overtaken_ids(operations, results), ["hash", "passage"])
        return changed, {document.id: max(document.version, version or 0) for document in fetched}


def _index_body(meta: VectorIndexMeta, quantisation: str | None) -> Mapping[str, indices.Json]:
    # `dot_product` refuses vectors of another length than 1, and so the zero vector; the order is the same.
    vector = {"type": "dense_vector", "dims": meta.representation.dimension, "similarity": "max_inner_product"}
    graph = {"type": f"{quantisation}_hnsw" if quantisation else "hnsw", "m": 16, "ef_construction": 128}
    return {
        "settings": {
            "number_of_shards": 1,
            "number_of_replicas": 0,
            "refresh_interval": "-1",
            "gc_deletes": VERSIONS_KEPT,
        },
        "mappings": {
            "dynamic": False,
            "_meta": meta.model_dump(mode="json"),
            "_source": {"excludes": [indices.DIGEST, _GRAPH, _SCANNED]},
            "properties": {
                "doc_id": {"type": "keyword"},
                "hash": {"type": "keyword", "index": False, "doc_values": False},
                **indices.digest_types(),
                "passage": {"type": "keyword", "index": False, "doc_values": False},
                "fp32": {"type": "binary"},
                _GRAPH: {**vector, "index_options": graph},
                _SCANNED: {**vector, "index_options": {"type": "flat"}},
                "fields": {"type": "object", "properties": field_types(meta.declaration.metadata)},
            },
        },
    }


def _index_operation(point: Point, representation: Dense, version: int | None) -> Operation:
    vector = kept_vector(point.vector, representation)
    assert not isinstance(vector, SparseVector)
    components = vector.tolist()
    source: dict[str, object] = {
        "doc_id": point.id,
        "hash": point.content_hash,
        **indices.digest_parts(point.id, point.content_hash),
        "passage": point.passage_hash,
        "fp32": b64encode(vector.astype("<f4").tobytes()).decode(),
        _GRAPH: components,
        _SCANNED: components,
        "fields": {field: list(values) for field, values in point.fields.items()},
    }
    action = {"_id": point.id, "require_alias": True, **version_parameters(version)}
    return Operation(point.id, ({"index": action}, source))


def _decoded(fp32: str) -> DenseVector:
    return np.frombuffer(b64decode(fp32), dtype="<f4").astype(np.float32)


def _dense(vector: Vector, held: Held) -> DenseVector:
    checked = checked_vector(vector, held.meta.representation)
    assert not isinstance(checked, SparseVector)
    return checked


def _dot_product(score: float) -> float:
    """Inverts Elasticsearch's score of `max_inner_product`: 1 + dot product, or 1 / (1 - dot product) below 1."""
    return score - 1.0 if score >= 1.0 else 1.0 - 1.0 / score


def _spec_of(held: Held) -> GenerationSpec:
    meta = held.meta
    return GenerationSpec(held.generation, meta.representation, meta.stamp, meta.declaration, meta.build, meta.owner)
