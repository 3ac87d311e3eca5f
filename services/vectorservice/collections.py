"""Creates, finishes, publishes and removes generations, and reports their state. Does not index or search."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping

from services.chassis.errors import ProblemError, StampMismatch, UnknownCollection
from services.contracts.collections import CollectionState, CollectionStates, VectorState
from services.contracts.generations import name_of
from services.storage.generation_checks import refuse_other_build, refuse_other_stamp, refuse_published
from services.storage.write_order import WriteOrder
from services.vectorservice.encoder import Encoder
from services.vectorstore.store import GenerationSpec, VectorStore, refuse_other_representation


async def begin(store: VectorStore, spec: GenerationSpec) -> CollectionState:
    """Creates an empty generation, or returns the existing one of the same spec and build."""
    await store.create(spec)
    return await state(store, spec.generation)


async def finish(store: VectorStore, generation: str, build: str | None) -> CollectionState:
    """Completes the approximate index and returns the state with the digest of all documents."""
    await store.finish(generation)
    digest = await store.digest(generation)
    finished = await state(store, generation)
    refuse_other_build(generation, finished.build, build)
    return finished.model_copy(update={"digest": digest})


async def publish(store: VectorStore, generation: str, build: str | None, publication: int | None) -> CollectionState:
    """Makes this generation the published one of its name."""
    refuse_other_build(generation, (await store.spec(generation)).build, build)
    await store.publish(generation, publication)
    return await state(store, generation)


async def drop(
    store: VectorStore, order: WriteOrder, generation: str, build: str | None, *, keep_published: bool
) -> None:
    """Removes a generation. With `keep_published`, raises Conflict if it is the published one."""

    async def work() -> None:
        if build is not None:  # a generation that cannot be opened has no known build: drop it without one
            refuse_other_build(generation, (await store.spec(generation)).build, build)
        if keep_published:
            published = (await store.published()).get(name_of(generation))
            refuse_published(generation, published=published == generation)
        await store.drop(generation)
        order.forget(generation)

    await order.change(generation, work)


def stamp_of(store: VectorStore, encoder: Encoder) -> Mapping[str, str]:
    """Returns everything that determines the hits of a generation made now."""
    return {**encoder.stamp, **store.stamp}


async def require_own(store: VectorStore, encoder: Encoder, generation: str) -> GenerationSpec:
    """Returns the spec of a generation. Raises StampMismatch if another model or representation made its vectors."""
    spec = await store.spec(generation)
    refuse_other_stamp(spec.generation, spec.stamp, stamp_of(store, encoder))
    refuse_other_representation(spec, encoder.representation)
    return spec


async def unsearchable(store: VectorStore, encoder: Encoder) -> tuple[str, ...]:
    """Returns the published generations that `require_own` refuses."""
    refused: list[str] = []
    for generation in (await store.published()).values():
        try:
            await require_own(store, encoder, generation)
        except StampMismatch:
            refused.append(generation)
        except ProblemError:  # removed since, or damaged, which the store's own check reports
            continue
    return tuple(sorted(refused))


async def state(store: VectorStore, generation: str) -> CollectionState:
    """Returns the state of one generation, of this model or another."""
    return await _state(store, generation, await store.published())


async def states(store: VectorStore, clock: Callable[[], float]) -> CollectionStates:
    """Returns the state of every generation, and the time by the clock of the store (Unix seconds)."""
    published = await store.published()
    collections: list[CollectionState] = []
    for generation in await store.generations():
        with contextlib.suppress(UnknownCollection):  # removed since it was listed
            collections.append(await _state(store, generation, published))
    return CollectionStates(collections=tuple(collections), unusable=await store.unusable(), now=clock())


async def _state(store: VectorStore, generation: str, published: Mapping[str, str]) -> CollectionState:
    spec, counts, publication = await asyncio.gather(
        store.spec(generation), store.counts(generation), store.publication(generation)
    )
    return CollectionState(
        generation=generation,
        published=published.get(name_of(generation)) == generation,
        documents=counts.documents,
        engine=store.engine,
        stamp=dict(spec.stamp),
        declaration=spec.declaration,
        vectors=VectorState(vectors=counts.documents, indexed=counts.indexed),
        build=spec.build,
        owner=spec.owner,
        published_at=None if publication is None else publication.at,
        publication=None if publication is None else publication.number,
        bytes=counts.bytes,
    )
