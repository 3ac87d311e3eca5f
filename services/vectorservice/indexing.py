"""Indexes and deletes documents. Encodes only passages whose vector is neither given nor stored yet.

Of a document without a vector, two hashes decide. Equal content hash: it is unchanged. Equal hash of what its
encoder reads: its vector is copied, from this generation or from another one of the same stamp.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from services.chassis.deadlines import Deadline
from services.chassis.errors import BadInput, UnknownCollection
from services.chassis.requests.telemetry import timed
from services.contracts.documents import DeleteReport, Document, DocumentWithVectors, IndexReport, ItemError
from services.contracts.generations import name_of, number_of
from services.inference.read_tokens import TextTokens, collected, summed
from services.storage.fields import fields_of
from services.storage.generation_checks import refuse_other_build
from services.storage.representation import DenseVector, SparseVector, Vector
from services.storage.write_order import Write, WriteOrder, WriteTurn, overtaken
from services.vectorservice.collections import require_own
from services.vectorservice.encoder import DocumentEncoder, Encoder, passage_hashes
from services.vectorservice.given_vectors import given_vector
from services.vectorstore.store import GenerationSpec, Point, StoredPoint, VectorStore

# Most documents and characters that are encoded and stored together: a retry after a deadline begins at the next chunk.
CHUNK, CHUNK_CHARACTERS = 64, 400_000

D = TypeVar("D", bound=Document)
T = TypeVar("T")


async def index(
    store: VectorStore,
    encoder: Encoder,
    order: WriteOrder,
    write: Write,
    documents: Sequence[DocumentWithVectors],
    deadline: Deadline,
) -> IndexReport:
    """Adds or replaces documents; reports how many were unchanged and how many passages were encoded.

    Encoding is slow and does not hold the write order: newer writes of the same ids are detected when storing.
    """
    spec = await require_own(store, encoder, write.generation)
    vectors_given, wrong = _each(documents, lambda document: given_vector(document, spec))
    fitting = [document for document in documents if document.id in vectors_given]
    given = {identity: vector for identity, vector in vectors_given.items() if vector is not None}
    compared = await _compare(store, order, write, fitting, given)
    fields, errors = _each(compared.changed, lambda one: fields_of(one.metadata, spec.declaration.metadata))
    accepted = [document for document in compared.changed if document.id in fields]
    late = dict(compared.overtaken)
    encoded = indexed = 0
    texts: list[TextTokens] = []
    for batch in _chunks(accepted):
        hashes = passage_hashes(encoder, batch)
        without = [document for document in batch if document.id not in given]
        with timed("copy"):
            wanted = {document.id: hashes[document.id] for document in without}
            own, vectors = await _stored_vectors(store, spec, wanted, compared.held)
        with timed("encode"), collected() as counted:
            missing = {wanted[document.id]: document for document in without if wanted[document.id] not in vectors}
            new, unreadable = await _encode(encoder, missing, deadline)
        encoded += len(new)
        texts += counted
        vectors = {**vectors, **new}
        faulty = {identity: unreadable[passage] for identity, passage in wanted.items() if passage in unreadable}
        errors.extend(ItemError(id=identity, reason=reason) for identity, reason in faulty.items())
        known = {**own, **given}
        points = [
            Point(
                document.id,
                known[document.id] if document.id in known else vectors[hashes[document.id]],
                document.content_hash,
                hashes[document.id],
                fields[document.id],
            )
            for document in batch
            if document.id not in faulty
        ]
        with timed("store"):
            overtook = await _store(store, order, write, points)
        indexed += len(points) - len(overtook)
        late |= overtook
    return IndexReport(
        indexed=indexed,
        unchanged=compared.unchanged,
        errors=(*wrong, *errors, *map(overtaken, late)),
        encoded=encoded,
        read=summed(texts),
        latest_version=max(late.values(), default=None),
    )


def _chunks(documents: Sequence[Document]) -> Iterator[Sequence[Document]]:
    start = characters = 0
    for place, document in enumerate(documents):
        size = len(document.text)
        if start < place and (place - start == CHUNK or characters + size > CHUNK_CHARACTERS):
            yield documents[start:place]
            start, characters = place, 0
        characters += size
    if documents:
        yield documents[start:]


@dataclass(frozen=True, slots=True)
class _Comparison:
    """The stored points of a batch's ids, its changed documents, and the newer versions that overtook some, by id."""

    held: Mapping[str, StoredPoint]
    changed: Sequence[Document]
    unchanged: int
    overtaken: Mapping[str, int]


async def _compare(
    store: VectorStore, order: WriteOrder, write: Write, documents: Sequence[Document], given: Mapping[str, DenseVector]
) -> _Comparison:
    """Compares content hashes and given vectors. Raises the versions of unchanged documents against older writes."""
    ids = [document.id for document in documents]

    async def work(turn: WriteTurn) -> _Comparison:
        await _refuse_other_build(store, write)
        held = await store.stored(write.generation, ids, vectors=bool(given))
        timely = [document for document in documents if document.id not in turn.overtaken]
        changed = [
            document
            for document in timely
            if document.id not in held
            or held[document.id].content_hash != document.content_hash
            or (document.id in given and not _is_same(given[document.id], held[document.id].vector))
        ]
        differing = {document.id for document in changed}
        same = {document.id: document.content_hash for document in timely if document.id not in differing}
        if same:
            await store.raise_versions(write.generation, same, turn.version)
            # Another process may have changed one meanwhile.
            now = await store.stored(write.generation, list(same), vectors=False)
            kept = {identity for identity, point in now.items() if point.content_hash == same[identity]}
            changed = [document for document in timely if document.id not in kept]
        return _Comparison(held, changed, len(timely) - len(changed), turn.overtaken)

    with timed("compare"):
        return await order.write(write, ids, work)


def _is_same(given: DenseVector, held: Vector | None) -> bool:
    return held is not None and not isinstance(held, SparseVector) and np.array_equal(given, held)


async def _store(store: VectorStore, order: WriteOrder, write: Write, points: Sequence[Point]) -> Mapping[str, int]:
    """Stores the points that no newer write has overtaken; returns the newer versions of the others, by id."""

    async def work(turn: WriteTurn) -> Mapping[str, int]:
        await _refuse_other_build(store, write)
        timely = [point for point in points if point.id not in turn.overtaken]
        newer = await store.upsert(write.generation, timely, turn.version) if timely else {}
        return {**turn.overtaken, **newer}

    return await order.write(write, [point.id for point in points], work)


async def _refuse_other_build(store: VectorStore, write: Write) -> None:
    if write.build is not None:
        refuse_other_build(write.generation, (await store.spec(write.generation)).build, write.build)


async def delete(store: VectorStore, order: WriteOrder, write: Write, ids: Sequence[str]) -> DeleteReport:
    """Removes the documents, except those that a newer write has overtaken."""

    async def work(turn: WriteTurn) -> DeleteReport:
        await _refuse_other_build(store, write)
        timely = [identity for identity in ids if identity not in turn.overtaken]
        deleted, newer = await store.delete(write.generation, timely, turn.version) if timely else (0, {})
        turn.record_deleted(identity for identity in timely if identity not in newer)
        late = {**turn.overtaken, **newer}
        return DeleteReport(
            deleted=deleted, errors=tuple(map(overtaken, late)), latest_version=max(late.values(), default=None)
        )

    return await order.write(write, ids, work)


def _each(documents: Sequence[D], read: Callable[[D], T]) -> tuple[dict[str, T], list[ItemError]]:
    """Returns what is read of each valid document by id, and the errors of the others, which raise BadInput."""
    found: dict[str, T] = {}
    errors: list[ItemError] = []
    for document in documents:
        try:
            found[document.id] = read(document)
        except BadInput as error:
            errors.append(ItemError(id=document.id, reason=error.detail))
    return found, errors


async def _stored_vectors(
    store: VectorStore, spec: GenerationSpec, hashes: Mapping[str, str], held: Mapping[str, StoredPoint]
) -> tuple[dict[str, Vector], dict[str, Vector]]:
    """Returns by id the vectors of documents whose passage stays, and by passage hash those and others of this
    generation and of others of the same stamp. Vectors that were given may differ where the passages are equal."""
    vectors: dict[str, Vector] = {}
    own: dict[str, Vector] = {}
    before = {identity: point.passage_hash for identity, point in held.items()}
    same = [identity for identity, passage_hash in hashes.items() if before.get(identity) == passage_hash]
    if same:
        stored = await store.stored(spec.generation, same, vectors=True)
        own = {
            identity: point.vector
            for identity, point in stored.items()
            if point.vector is not None and point.passage_hash == hashes[identity]
        }
        vectors |= _by_passage(stored)
    left = [identity for identity, passage_hash in hashes.items() if passage_hash not in vectors]
    if not left:
        return own, vectors
    for earlier in await _generations_to_reuse(store, spec):
        try:
            stored = await store.stored(earlier, left, vectors=True)
        except UnknownCollection:
            continue  # removed meanwhile: its passages are encoded instead
        vectors |= _by_passage(stored)
        left = [identity for identity in left if hashes[identity] not in vectors]
    return own, vectors


async def _generations_to_reuse(store: VectorStore, spec: GenerationSpec) -> list[str]:
    """Returns the other generations of the same name, stamp and representation, newest first."""
    same: list[str] = []
    for generation in sorted(await store.generations(), key=number_of, reverse=True):
        if name_of(generation) != name_of(spec.generation) or generation == spec.generation:
            continue
        try:
            other = await store.spec(generation)
        except UnknownCollection:
            continue
        if dict(other.stamp) == dict(spec.stamp) and other.representation == spec.representation:
            same.append(generation)
    return same


def _by_passage(points: Mapping[str, StoredPoint]) -> dict[str, Vector]:
    return {point.passage_hash: point.vector for point in points.values() if point.vector is not None}


async def _encode(
    encoder: Encoder, documents: Mapping[str, Document], deadline: Deadline
) -> tuple[dict[str, Vector], dict[str, str]]:
    """Encodes documents by the hash of their passage; returns the vectors, and why the encoder refuses the others."""
    if not documents:
        return {}, {}
    try:
        if isinstance(encoder, DocumentEncoder):
            encoded = await encoder.encode_documents(tuple(documents.values()), deadline)
        else:
            encoded = await encoder.encode_passages([document.passage for document in documents.values()], deadline)
        return dict(zip(documents, encoded, strict=True)), {}
    except BadInput as error:  # for all of them although one is at fault
        if len(documents) == 1:
            return {}, dict.fromkeys(documents, error.detail)
    hashes = list(documents)
    middle = len(hashes) // 2
    parts = [
        await _encode(encoder, {passage_hash: documents[passage_hash] for passage_hash in half}, deadline)
        for half in (hashes[:middle], hashes[middle:])
    ]
    (first, refused), (second, refused_too) = parts
    return first | second, refused | refused_too
