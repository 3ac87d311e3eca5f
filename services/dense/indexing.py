"""Documents in: encodes what is new, and only that.

Two hashes decide: the content hash (equal: nothing to do) and the hash of the passage that the model reads (equal: the
vector is taken over, from this generation or from an earlier one made with the same model).
"""

import hashlib
from collections.abc import Mapping, Sequence

from services.chassis.deadlines import Deadline
from services.chassis.errors import BadInput, UnknownCollection
from services.chassis.telemetry import timed
from services.contracts.collections import CollectionDeclaration
from services.contracts.documents import Document, IndexReport, ItemError
from services.dense.collections import opened
from services.dense.encoder import Encoder
from services.vectorstore.fields import FieldValue, fields_of
from services.vectorstore.store import Made, Point, StoredPoint, Vector, VectorStore, name_of, number_of

# Encoded and stored together: when a deadline cuts a batch off, what was encoded before is not encoded again.
TOGETHER = 64


def passage_hash(document: Document) -> str:
    """sha256 of what the model reads of a document."""
    return hashlib.sha256(document.passage.encode()).hexdigest()


async def index(
    store: VectorStore, encoder: Encoder, generation: str, documents: Sequence[Document], deadline: Deadline
) -> IndexReport:
    """Makes the generation hold these documents; says how many it already held and how many passages were encoded."""
    made = await opened(store, encoder, generation)
    with timed("compare"):
        held = await store.stored(generation, [document.id for document in documents], vectors=False)
    changed = [
        document
        for document in documents
        if document.id not in held or held[document.id].content_hash != document.content_hash
    ]
    fields, errors = _checked_fields(changed, made.declaration)
    accepted = [document for document in changed if document.id in fields]
    encoded = 0
    for start in range(0, len(accepted), TOGETHER):
        batch = accepted[start : start + TOGETHER]
        with timed("copy"):
            vectors = await _vectors_held(store, made, batch, held)
        with timed("encode"):
            new = await _encoded(encoder, batch, vectors, deadline)
        encoded += len(new)
        vectors = {**vectors, **new}
        points = [
            Point(one.id, vectors[passage_hash(one)], one.content_hash, passage_hash(one), fields[one.id])
            for one in batch
        ]
        with timed("store"):
            await store.upsert(generation, points)
    return IndexReport(
        indexed=len(accepted), unchanged=len(documents) - len(changed), errors=tuple(errors), encoded=encoded
    )


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
    """Other generations of the same name and stamp, newest first."""
    name = name_of(made.generation)
    others = [one for one in await store.generations() if name_of(one) == name and one != made.generation]
    same: list[str] = []
    for one in sorted(others, key=number_of, reverse=True):
        try:
            stamp = (await store.made(one)).stamp
        except UnknownCollection:
            continue
        if dict(stamp) == dict(made.stamp):
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
