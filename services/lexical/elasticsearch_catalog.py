"""Which generations an Elasticsearch holds, what made them, and by which names they go."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from elasticsearch import AsyncElasticsearch

from services.chassis.errors import Conflict, UnknownCollection
from services.contracts.collections import CollectionDeclaration
from services.contracts.generations import is_generation, name_of
from services.lexical.elasticsearch_answers import DESCRIBED, Described, Statistics
from services.lexical.elasticsearch_client import in_time
from services.lexical.elasticsearch_errors import elasticsearch_errors, unknown
from services.lexical.elasticsearch_mapping import ANALYSIS, Json, Meta, meta_of
from services.lexical.elasticsearch_reading import largest_document
from services.lexical.stamp import stamp_of
from services.storage.stamps import refuse_other_stamp

# How long a generation is taken to be as it was: another replica may delete it and begin it anew, or publish it.
REMEMBERED_S = 1.0


@dataclass(frozen=True, slots=True)
class Held:
    """A generation that is there."""

    generation: str
    meta: Meta
    kept: Json  # the whole `_meta`, with the keys that only a newer release knows
    published: bool

    @property
    def declaration(self) -> CollectionDeclaration:
        """What was declared when it began."""
        return self.meta.declaration


class Catalog:
    """Owns the names, and for a moment what was read under them.

    Ours is an index that is named prefix + generation and whose `_meta` says that a service with this prefix made it.
    All others are as if they were not there, whatever they are called.
    """

    def __init__(self, client: AsyncElasticsearch, prefix: str) -> None:
        self._client = client
        self.prefix = prefix
        self._remembered: dict[str, tuple[float, Held]] = {}
        self._largest: dict[str, tuple[float, int | None]] = {}

    def index(self, generation: str) -> str:
        """The index of a generation."""
        return f"{self.prefix}{generation}"

    def writing(self, generation: str) -> str:
        """The alias that documents are written to: writing to the name of an index that has just been deleted would
        make Elasticsearch create it, without a mapping."""
        return f"{self.prefix}{generation}-writing"

    def alias(self, generation: str) -> str:
        """The name under which the published generation is found: the collection's."""
        return f"{self.prefix}{name_of(generation)}"

    async def usable(self, generation: str) -> Held:
        """One that the present mapping fits, read at most a second ago."""
        moment, held = self._remembered.get(generation, (0.0, None))
        if held is None or time.monotonic() - moment > REMEMBERED_S:
            held = await self.held(generation)
            self._remembered[generation] = time.monotonic(), held
        refuse_other_stamp(generation, held.meta.stamp, stamp_of(held.declaration, ANALYSIS))
        return held

    async def largest(self, generation: str) -> int | None:
        """The size of its largest document, read at most a second ago; None when that is not known."""
        moment, size = self._largest.get(generation, (0.0, None))
        if time.monotonic() - moment > REMEMBERED_S:
            size = await largest_document(self._client, self.index(generation))
            self._largest[generation] = time.monotonic(), size
        return size

    async def held(self, generation: str) -> Held:
        """One, read now. Raises UnknownCollection, also for an index that is not ours."""
        self.forget(generation)
        found = await self._described(self.index(generation))
        if generation not in found:
            raise unknown(generation)
        return found[generation]

    async def all(self) -> dict[str, Held]:
        """Every one of ours, read now."""
        return await self._described(f"{self.prefix}*@*")

    async def counts(self, pattern: str) -> dict[str, int]:
        """Documents that searches see, by index."""
        with elasticsearch_errors():
            answer = await in_time(self._client).indices.stats(
                index=pattern, metric="docs", filter_path="indices.*.primaries.docs.count"
            )
            statistics = Statistics.model_validate(answer.body)
        return {index: one.primaries.docs.count for index, one in statistics.indices.items()}

    def forget(self, generation: str) -> None:
        """Drops what is remembered of a generation."""
        self._remembered.pop(generation, None)
        self._largest.pop(generation, None)

    @contextmanager
    def watching(self, generation: str) -> Iterator[None]:
        """Around what was begun with a remembered generation: forgets it when it turns out to be gone."""
        try:
            yield
        except UnknownCollection:
            self.forget(generation)
            raise

    async def siblings(self, generation: str) -> list[str]:
        """The other indices of ours with this collection's name. Raises Conflict when a foreign one has our alias."""
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

    async def _described(self, pattern: str) -> dict[str, Held]:
        return self._ours(await self._read(pattern))

    async def _read(self, pattern: str) -> dict[str, Described]:
        """What there is under a pattern, whoever made it."""
        with elasticsearch_errors():
            answer = await in_time(self._client).indices.get(
                index=pattern, ignore_unavailable=True, filter_path="*.mappings._meta,*.aliases"
            )
            return DESCRIBED.validate_python(answer.body)

    def _ours(self, indices: Mapping[str, Described]) -> dict[str, Held]:
        held: dict[str, Held] = {}
        for index, described in indices.items():
            generation = index.removeprefix(self.prefix)
            kept = described.mappings.meta or {}
            meta = meta_of(kept, self.prefix)
            if meta is not None and index == self.index(generation) and is_generation(generation):
                held[generation] = Held(generation, meta, kept, self._is_published(generation, described))
        return held

    def _is_published(self, generation: str, described: Described) -> bool:
        return self.alias(generation) in described.aliases
