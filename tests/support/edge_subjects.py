"""Wraps both embedded engines as one test subject: a directory of generations that hold ids."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np

from services.contracts.collections import CollectionDeclaration, Unusable
from services.contracts.documents import Document
from services.contracts.health import Check
from services.contracts.retrieval import RetrievalRequest
from services.lexical.engine_edge import EdgeEngine
from services.storage.edge_directory import DEFAULT_LIMITS, EdgeLimits
from services.storage.representation import Dense
from services.vectorstore.store import GenerationSpec, Point, VectorQuery
from services.vectorstore.store_edge import EdgeStore

DIMENSION = 384
NONE = CollectionDeclaration()


class Subject(ABC):
    """An opened directory."""

    @abstractmethod
    async def begin(self, generation: str, declaration: CollectionDeclaration = NONE) -> None: ...
    @abstractmethod
    async def put(self, generation: str, ids: Sequence[str]) -> None: ...
    @abstractmethod
    async def delete(self, generation: str, ids: Sequence[str]) -> int: ...
    @abstractmethod
    async def held(self, generation: str, ids: Sequence[str]) -> set[str]: ...
    @abstractmethod
    async def found(self, generation: str) -> int:
        """Returns hits of a search that matches every document, at most 10."""

    @abstractmethod
    async def finish(self, generation: str) -> None: ...
    @abstractmethod
    async def publish(self, generation: str) -> None: ...
    @abstractmethod
    async def published(self) -> set[str]: ...
    @abstractmethod
    async def drop(self, generation: str) -> None: ...
    @abstractmethod
    async def generations(self) -> tuple[str, ...]: ...
    @abstractmethod
    async def unusable(self) -> tuple[Unusable, ...]: ...
    @abstractmethod
    async def check(self) -> Check: ...
    @abstractmethod
    async def close(self) -> None: ...


class Vectors(Subject):
    """The vector store; 700 of its vectors are worth an index."""

    def __init__(self, directory: Path, limits: EdgeLimits = DEFAULT_LIMITS) -> None:
        self._store = EdgeStore(directory, limits)

    async def begin(self, generation: str, declaration: CollectionDeclaration = NONE) -> None:
        await self._store.create(GenerationSpec(generation, Dense(DIMENSION), {"model": "unit"}, declaration))

    async def put(self, generation: str, ids: Sequence[str]) -> None:
        await self._store.upsert(generation, [Point(one, _vector(one), "c", "p", {}) for one in ids])

    async def delete(self, generation: str, ids: Sequence[str]) -> int:
        return (await self._store.delete(generation, ids))[0]

    async def held(self, generation: str, ids: Sequence[str]) -> set[str]:
        return set(await self._store.stored(generation, ids, vectors=False))

    async def found(self, generation: str) -> int:
        return len(await self._store.search(generation, VectorQuery(_vector("query"), top=10)))

    async def finish(self, generation: str) -> None:
        await self._store.finish(generation)

    async def publish(self, generation: str) -> None:
        await self._store.publish(generation)

    async def published(self) -> set[str]:
        return set((await self._store.published()).values())

    async def drop(self, generation: str) -> None:
        await self._store.drop(generation)

    async def generations(self) -> tuple[str, ...]:
        return await self._store.generations()

    async def unusable(self) -> tuple[Unusable, ...]:
        return await self._store.unusable()

    async def check(self) -> Check:
        return await self._store.ready()

    async def close(self) -> None:
        await self._store.close()


class Texts(Subject):
    """The text engine; a copy is made of it after 200 deletions."""

    def __init__(self, directory: Path, limits: EdgeLimits = DEFAULT_LIMITS) -> None:
        self._engine = EdgeEngine(directory, limits)

    async def begin(self, generation: str, declaration: CollectionDeclaration = NONE) -> None:
        await self._engine.begin(generation, declaration)

    async def put(self, generation: str, ids: Sequence[str]) -> None:
        report = await self._engine.index(generation, [Document(id=one, text=f"brake {one}") for one in ids])
        assert not report.errors

    async def delete(self, generation: str, ids: Sequence[str]) -> int:
        return (await self._engine.delete(generation, ids)).deleted

    async def held(self, generation: str, ids: Sequence[str]) -> set[str]:
        return {document.id for document in (await self._engine.get(generation, ids)).documents}

    async def found(self, generation: str) -> int:
        return len(await self._engine.search(generation, RetrievalRequest(query="brake", top=10)))

    async def finish(self, generation: str) -> None:
        await self._engine.finish(generation)

    async def publish(self, generation: str) -> None:
        await self._engine.publish(generation)

    async def published(self) -> set[str]:
        return {state.generation for state in await self._engine.states() if state.published}

    async def drop(self, generation: str) -> None:
        await self._engine.drop(generation)

    async def generations(self) -> tuple[str, ...]:
        return tuple(state.generation for state in await self._engine.states())

    async def unusable(self) -> tuple[Unusable, ...]:
        return await self._engine.unusable()

    async def check(self) -> Check:
        return await self._engine.check()

    async def close(self) -> None:
        await self._engine.close()


SUBJECTS: dict[str, type[Vectors] | type[Texts]] = {"vectors": Vectors, "texts": Texts}


@asynccontextmanager
async def opened(kind: str, directory: Path, limits: EdgeLimits = DEFAULT_LIMITS) -> AsyncIterator[Subject]:
    subject = SUBJECTS[kind](directory, limits)
    try:
        yield subject
    finally:
        await subject.close()


def numbered(first: int, after: int) -> list[str]:
    """Ids."""
    return [f"d{number}" for number in range(first, after)]


def _vector(one: str) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    seed = np.frombuffer(one.encode(), dtype=np.uint8)
    vector = np.random.default_rng(seed).standard_normal(DIMENSION).astype(np.float32)
    return vector / np.float32(np.linalg.norm(vector))
