"""Compares approximate searches of a vector store with exact ones, and with deeper ones."""

from collections.abc import Sequence
from dataclasses import replace

from services.storage.representation import Vector
from services.vectorstore.store import VectorQuery, VectorStore


async def assert_depth_changes_no_first_hit(store: VectorStore, generation: str, vectors: Sequence[Vector]) -> None:
    """Asserts that approximate hits are the beginning of deeper ones, as deep as the beam allows."""
    for vector in vectors:
        query = VectorQuery(vector, top=112, beam=128)
        deepest = await store.search(generation, query)
        for top in (5, 40):
            assert await store.search(generation, replace(query, top=top)) == deepest[:top]


async def found_share(store: VectorStore, generation: str, vectors: Sequence[Vector], beam: int) -> float:
    """Returns the share of the exact ten best that approximate searches of this beam find."""
    shares = []
    for vector in vectors:
        query = VectorQuery(vector, top=10, beam=beam)
        exact, near = [await store.search(generation, replace(query, exact=exact)) for exact in (True, False)]
        shares.append(len({hit.id for hit in exact} & {hit.id for hit in near}) / 10)
    return sum(shares) / len(shares)
