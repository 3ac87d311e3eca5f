"""Generations as the wire shows them, and the check that they are this service's own."""

import asyncio
import contextlib
from collections.abc import Mapping

from services.chassis.errors import UnknownCollection
from services.contracts.collections import CollectionState, CollectionStates, VectorState
from services.contracts.generations import name_of
from services.storage.builds import refuse_other_build, refuse_published
from services.storage.stamps import refuse_other_stamp
from services.storage.write_order import WriteOrder
from services.vectorservice.encoder import Encoder
from services.vectorstore.store import Made, VectorStore, refuse_other_representation


async def begin(store: VectorStore, made: Made) -> CollectionState:
    """Begins an empty generation, or finds the one that was made of the same for the same build."""
    await store.create(made)
    return await state(store, made.generation)


async def finish(store: VectorStore, generation: str, build: str | None) -> CollectionState:
    """Completes the approximate index; the state tells the digest of all documents."""
    await store.finish(generation)
    digest = await store.digest(generation)
    found = await state(store, generation)
    refuse_other_build(generation, found.build, build)
    return found.model_copy(update={"digest": digest})


async def publish(store: VectorStore, generation: str, build: str | None) -> CollectionState:
    """Makes this generation the published one of its name."""
    refuse_other_build(generation, (await store.made(generation)).build, build)
    await store.publish(generation)
    return await state(store, generation)


async def drop(
    store: VectorStore, order: WriteOrder, generation: str, build: str | None, *, keep_published: bool
) -> None:
    """Removes a generation; raises Conflict when it is published and was to be removed only if it is not."""

    async def work() -> None:
        if build is not None:  # what cannot be opened can be dropped by whoever does not ask whose it is
            refuse_other_build(generation, (await store.made(generation)).build, build)
        if keep_published:
            published = (await store.published()).get(name_of(generation))
            refuse_published(generation, published=published == generation)
        await store.drop(generation)
        order.forget(generation)

    await order.change(generation, work)


async def opened(store: VectorStore, encoder: Encoder, generation: str) -> Made:
    """The generation, if this service's model made it; vectors of another are worse than none (StampMismatch)."""
    made = await store.made(generation)
    refuse_other_stamp(made.generation, made.stamp, encoder.stamp)
    refuse_other_representation(made, encoder.representation)
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
    return CollectionStates(collections=tuple(found), unusable=await store.unusable())


async def _state(store: VectorStore, generation: str, published: Mapping[str, str]) -> CollectionState:
    made, counts, published_at = await asyncio.gather(
        store.made(generation), store.counts(generation), store.published_at(generation)
    )
    return CollectionState(
        generation=generation,
        published=published.get(name_of(generation)) == generation,
        documents=counts.documents,
        engine=store.engine,
        stamp=dict(made.stamp),
        declaration=made.declaration,
        vectors=VectorState(vectors=counts.documents, indexed=counts.indexed),
        build=made.build,
        published_at=published_at,
    )
