"""Documents in: encodes what is new, and only that.

Two hashes decide: the content hash (equal: nothing to do) and the hash of the passage that the model reads (equal: the
vector is taken over, from this generation or from an earlier one made with the same model).
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from services.chassis.deadlines import Deadline
from services.chassis.errors import BadInput, UnknownCollection
from services.chassis.telemetry import timed
from services.contracts.collections import CollectionDeclaration
from services.contracts.documents import DeleteReport, Document, IndexReport, ItemError
from services.contracts.generations import name_of, number_of
from services.storage.builds import refuse_other_build
from services.storage.fields import FieldValue, fields_of
from services.storage.write_order import Write, WriteOrder, WriteTurn, overtaken
from services.vectorservice.collections import opened
from services.vectorservice.encoder import Encoder
from services.vectorstore.representation import Vector
from services.vectorstore.store import Made, Point, StoredPoint, VectorStore

# Encoded and stored together: when a deadline cuts a batch off, what was encoded before is not encoded again.
TOGETHER = 64


def passage_hash(document: Document) -> str:
    """sha256 of what the model reads of a document."""
    return hashlib.sha256(document.passage.encode()).hexdigest()


async def index(
    store: VectorStore,
    encoder: Encoder,
    order: WriteOrder,
    write: Write,
    documents: Sequence[Document],
    deadline: Deadline,
) -> IndexReport:
    """Makes the generation hold these documents; says how many it already held and how many passages were encoded.

    Encoding takes long, and nobody waits for it: whether a newer write came meanwhile is asked when storing.
    """
    made = await opened(store, encoder, write.generation)
    compared = await _compared(store, order, write, documents)
    fields, errors = _checked_fields(compared.changed, made.declaration)
    accepted = [document for document in compared.changed if document.id in fields]
    late = dict(compared.overtaken)
    encoded = indexed = 0
    for start in range(0, len(accepted), TOGETHER):
        batch = accepted[start : start + TOGETHER]
        with timed("copy"):
            vectors = await _vectors_held(store, made, batch, compared.held)
        with timed("encode"):
            new = await _encoded(encoder, batch, vectors, deadline)
        encoded += len(new)
        vectors = {**vectors, **new}
        points = [
            Point(one.id, vectors[passage_hash(one)], one.content_hash, passage_hash(one), fields[one.id])
            for one in batch
        ]
        with timed("store"):
            overtook = await _stored(store, order, write, points)
        indexed += len(points) - len(overtook)
        late |= overtook
    return IndexReport(
        indexed=indexed,
        unchanged=compared.unchanged,
        errors=(*errors, *map(overtaken, late)),
        encoded=encoded,
        latest_version=max(late.values(), default=None),
    )


@dataclass(frozen=True, slots=True)
class _Compared:
    """What is held under the ids of a batch, which of its documents differ, and which a newer write has overtaken."""

    held: Mapping[str, StoredPoint]
    changed: Sequence[Document]
    unchanged: int
    overtaken: Mapping[str, int]


async def _compared(store: VectorStore, order: WriteOrder, write: Write, documents: Sequence[Document]) -> _Compared:
    """Compares by content hash. What is unchanged counts as written: an older write must not come after it."""
    ids = [document.id for document in documents]

    async def work(turn: WriteTurn) -> _Compared:
        await _refuse_other_build(store, write)
        held = await store.stored(write.generation, ids, vectors=False)
        timely = [document for document in documents if document.id not in turn.overtaken]
        changed = [one for one in timely if one.id not in held or held[one.id].content_hash != one.content_hash]
        differing = {one.id for one in changed}
        turn.record_written(one.id for one in timely if one.id not in differing)
        return _Compared(held, changed, len(timely) - len(changed), turn.overtaken)

    with timed("compare"):
        return await order.write(write, ids, work)


async def _stored(store: VectorStore, order: WriteOrder, write: Write, points: Sequence[Point]) -> Mapping[str, int]:
    """Stores what no newer write has overtaken meanwhile; the versions that overtook the rest, by id."""

    async def work(turn: WriteTurn) -> Mapping[str, int]:
        await _refuse_other_build(store, write)
        timely = [point for point in points if point.id not in turn.overtaken]
        if timely:
            await store.upsert(write.generation, timely)
        turn.record_written(point.id for point in timely)
        return turn.overtaken

    return await order.write(write, [point.id for point in points], work)


async def _refuse_other_build(store: VectorStore, write: Write) -> None:
    if write.build is not None:
        refuse_other_build(write.generation, (await store.made(write.generation)).build, write.build)


async def delete(store: VectorStore, order: WriteOrder, write: Write, ids: Sequence[str]) -> DeleteReport:
    """Removes the documents that no newer write has overtaken."""

    async def work(turn: WriteTurn) -> DeleteReport:
        await _refuse_other_build(store, write)
        timely = [one for one in ids if one not in turn.overtaken]
        deleted = await store.delete(write.generation, timely) if timely else 0
        turn.record_written(timely)
        return DeleteReport(
            deleted=deleted,
            errors=tuple(map(overtaken, turn.overtaken)),
            latest_version=turn.latest_version,
        )

    return await order.write(write, ids, work)


def _checked_fields(
    documents: Sequence[Document], declaration: CollectionDeclaration
) -> tuple[dict[str, Mapping[str, FieldValue]], list[ItemError]]:
    """The declared fields of each document by its id, and why some documents cannot be taken."""
    fields: dict[str, Mapping[str, FieldValue]] = {}
    errors: list[ItemError] = []
    for document in documents:
        try:
            fields[document.id] = fields_of(document.metadata, declaration.metadata)
        except BadInput as error:
            errors.append(ItemError(id=document.id, reason=error.detail))
    return fields, errors


async def _vectors_held(
    store: VectorStore, made: Made, documents: Sequence[Document], held: Mapping[str, StoredPoint]
) -> dict[str, Vector]:
    """Vectors by passage hash, as far as this generation or an earlier one of the same stamp has them."""
    found: dict[str, Vector] = {}
    same = [one.id for one in documents if one.id in held and held[one.id].passage_hash == passage_hash(one)]
    if same:
        found |= _by_passage(await store.stored(made.generation, same, vectors=True))
    left = [one for one in documents if passage_hash(one) not in found]
    if not left:
        return found
    for earlier in await _earlier(store, made):
        try:
            there = await store.stored(earlier, [one.id for one in left], vectors=True)
        except UnknownCollection:
            continue  # removed in the meantime: its passages are encoded instead
        found |= _by_passage(there)
        left = [one for one in left if passage_hash(one) not in found]
    return found


async def _earlier(store: VectorStore, made: Made) -> list[str]:
    """Other generations of the same name, stamp and representation, newest first."""
    name = name_of(made.generation)
    others = [one for one in await store.generations() if name_of(one) == name and one != made.generation]
    same: list[str] = []
    for one in sorted(others, key=number_of, reverse=True):
        try:
            there = await store.made(one)
        except UnknownCollection:
            continue
        if dict(there.stamp) == dict(made.stamp) and there.representation == made.representation:
            same.append(one)
    return same


def _by_passage(points: Mapping[str, StoredPoint]) -> dict[str, Vector]:
    return {point.passage_hash: point.vector for point in points.values() if point.vector is not None}


async def _encoded(
    encoder: Encoder, documents: Sequence[Document], known: Mapping[str, Vector], deadline: Deadline
) -> dict[str, Vector]:
    """Vectors by passage hash of the passages not known yet, each encoded once."""
    texts = {passage_hash(one): one.passage for one in documents if passage_hash(one) not in known}
    vectors = await encoder.encode_passages(tuple(texts.values()), deadline)
    return dict(zip(texts, vectors, strict=True))
