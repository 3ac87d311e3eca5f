"""Generations as the wire shows them, and the check that they are this service's own."""

import asyncio
import contextlib
from collections.abc import Mapping

from services.chassis.errors import UnknownCollection
from services.contracts.collections import CollectionDeclaration, CollectionState, CollectionStates, VectorState
from services.dense.encoder import Encoder
from services.vectorstore.stamps import refuse_stamp
from services.vectorstore.store import Made, VectorStore, name_of


async def begin(store: VectorStore, encoder: Encoder, generation: str, declaration: CollectionDeclaration) -> None:
    """An empty generation, or the one that is there if it was made of the same."""
    await store.create(Made(generation, encoder.dimension, encoder.stamp, declaration))


async def opened(store: VectorStore, encoder: Encoder, generation: str) -> Made:
    """The generation, if this service's model made it; vectors of another are worse than none (StampMismatch)."""
    made = await store.made(generation)
    refuse_stamp(made, encoder.stamp)
    return made


async def state(store: VectorStore, generation: str) -> CollectionState:
    """One generation as the wire shows it, whoever made it."""
    return await _state(store, generation, await store.published())


async def states(store: VectorStore) -> CollectionStates:
    """Every generation."""
    published = await store.published()
    found: list[CollectionState] = []
    for generation in await store.generations():
        with contextlib.suppress(UnknownCollection):  # removed since it was listed
            found.append(await _state(store, generation, published))
    return CollectionStates(collections=tuple(found))


async def _state(store: VectorStore, generation: str, published: Mapping[str, str]) -> CollectionState:
    made, counts = await asyncio.gather(store.made(generation), store.counts(generation))
    return CollectionState(
        generation=generation,
        published=published.get(name_of(generation)) == generation,
        documents=counts.documents,
        engine=store.engine,
        stamp=dict(made.stamp),
        declaration=made.declaration,
        vectors=VectorState(vectors=counts.documents, indexed=counts.indexed),
    )
