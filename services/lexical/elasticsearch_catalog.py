"""Owns the names of indices and aliases, and reads which generations an Elasticsearch holds and what made them."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from elasticsearch import AsyncElasticsearch

from services.chassis.errors import Conflict, UnknownCollection
from services.contracts.collections import CollectionDeclaration
from services.contracts.generations import is_generation, name_of
from services.lexical.elasticsearch_answers import INDEX_DESCRIPTIONS, IndexDescription, Statistics
from services.lexical.elasticsearch_client import within_deadline
from services.lexical.elasticsearch_errors import elasticsearch_errors, unknown_collection
from services.lexical.elasticsearch_mapping import IndexMeta, Json, meta_of, stamp_beside
from services.lexical.elasticsearch_reading import largest_document
from services.storage.stamps import refuse_other_stamp

# Seconds for which a generation is cached: another replica may delete it and begin it again, or publish it.
REMEMBERED_S = 1.0


@dataclass(frozen=True, slots=True)
class IndexSize:
    """Documents visible to searches, and bytes on the disk of one copy; None where the server does not report it."""

    documents: int
    bytes: int | None


NO_SIZE = IndexSize(0, None)


@dataclass(frozen=True, slots=True)
class HeldGeneration:
    """A generation that Elasticsearch holds."""

    generation: str
    meta: IndexMeta
    kept: Json  # the whole `_meta`, including keys that only a newer release knows
    published: bool

    @property
    def declaration(self) -> CollectionDeclaration:
        """The declaration that it was begun with."""
        return self.meta.declaration


class ElasticsearchCatalog:
    """Owns the names, and a short-lived cache of what was read under them.

    An index is ours if it is named prefix + generation and its `_meta` names this prefix as that of its maker.
    All others are ignored.
    """

    def __init__(self, client: AsyncElasticsearch, prefix: str) -> None:
        self._client = client
        self.prefix = prefix
        self._remembered: dict[str, tuple[float, HeldGeneration]] = {}
        self._largest: dict[str, tuple[float, int | None]] = {}

    def index(self, generation: str) -> str:
        """Returns the index of a generation."""
        return f"{self.prefix}{generation}"

    def writing(self, generation: str) -> str:
        """Returns the alias that documents are written to: writing to the name of an index that was just deleted would
        create it without a mapping."""
        return f"{self.prefix}{generation}-writing"

    def alias(self, generation: str) -> str:
        """Returns the alias of the published generation: the collection's name."""
        return f"{self.prefix}{name_of(generation)}"

    async def usable(self, generation: str) -> HeldGeneration:
        """Returns a generation, read at most a second ago. Raises StampMismatch if it was made with another mapping."""
        moment, held = self._remembered.get(generation, (0.0, None))
        if held is None or time.monotonic() - moment > REMEMBERED_S:
            held = await self.held(generation)
            self._remembered[generation] = time.monotonic(), held
        refuse_other_stamp(generation, held.meta.stamp, stamp_beside(held.meta.stamp, held.declaration))
        return held

    async def largest(self, generation: str) -> int | None:
        """Returns the bytes of its largest document, read at most a second ago; None if unknown."""
        moment, size = self._largest.get(generation, (0.0, None))
        if time.monotonic() - moment > REMEMBERED_S:
            size = await largest_document(self._client, self.index(generation))
            self._largest[generation] = time.monotonic(), size
        return size

    async def held(self, generation: str) -> HeldGeneration:
        """Reads a generation. Raises UnknownCollection, also for an index that is not ours."""
        self.forget(generation)
        found = await self._described(self.index(generation))
        if generation not in found:
            raise unknown_collection(generation)
        return found[generation]

    async def all(self) -> dict[str, HeldGeneration]:
        """Reads every generation of ours."""
        return await self._described(f"{self.prefix}*@*")

    async def sizes(self, pattern: str) -> dict[str, IndexSize]:
        """Reads the number of documents visible to searches and the bytes on the disk, by index."""
        shown = ("indices.*.primaries.docs.count", "indices.*.primaries.store.size_in_bytes")
        with elasticsearch_errors():
            answer = await within_deadline(self._client).indices.stats(
                index=pattern, metric="docs,store", filter_path=",".join(shown)
            )
            statistics = Statistics.model_validate(answer.body)
        found = {index: one.primaries for index, one in statistics.indices.items()}
        return {
            index: IndexSize(one.docs.count, None if one.store is None else one.store.size_in_bytes)
            for index, one in found.items()
        }

    def forget(self, generation: str) -> None:
        """Drops the cached state of a generation."""
        self._remembered.pop(generation, None)
        self._largest.pop(generation, None)

    @contextmanager
    def forget_if_gone(self, generation: str) -> Iterator[None]:
        """Drops the cached generation if the block raises UnknownCollection."""
        try:
            yield
        except UnknownCollection:
            self.forget(generation)
            raise

    async def siblings(self, generation: str) -> list[str]:
        """Returns our other indices of this collection. Raises Conflict if a foreign index has our alias."""
        alias = self.alias(generation)
        described = await self._read(f"{alias},{alias}@*")
        ours = self._ours(described)
        for index, one in described.items():
            if alias in one.aliases and index.removeprefix(self.prefix) not in ours:
                raise Conflict(
                    f"The alias {alias} is on the index {index}, which is not ours; remove it there, or set "
                    "LEXICAL_INDEX_PREFIX to a name of its own."
                )
        return [self.index(one) for one in ours if one != generation and name_of(one) == name_of(generation)]

    async def _described(self, pattern: str) -> dict[str, HeldGeneration]:
        return self._ours(await self._read(pattern))

    async def _read(self, pattern: str) -> dict[str, IndexDescription]:
        """Reads the indices that match a pattern, ours or not."""
        with elasticsearch_errors():
            answer = await within_deadline(self._client).indices.get(
                index=pattern, ignore_unavailable=True, filter_path="*.mappings._meta,*.aliases"
            )
            return INDEX_DESCRIPTIONS.validate_python(answer.body)

    def _ours(self, indices: Mapping[str, IndexDescription]) -> dict[str, HeldGeneration]:
        held: dict[str, HeldGeneration] = {}
        for index, described in indices.items():
            generation = index.removeprefix(self.prefix)
            kept = described.mappings.meta or {}
            meta = meta_of(kept, self.prefix)
            if meta is not None and index == self.index(generation) and is_generation(generation):
                held[generation] = HeldGeneration(generation, meta, kept, self._is_published(generation, described))
        return held

    def _is_published(self, generation: str, described: IndexDescription) -> bool:
        return self.alias(generation) in described.aliases
