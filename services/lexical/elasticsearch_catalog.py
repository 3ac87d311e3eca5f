"""Which generations an Elasticsearch holds, what made them, and by which names they go."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from elasticsearch import AsyncElasticsearch

from services.chassis.errors import UnknownCollection
from services.contracts.collections import CollectionDeclaration
from services.lexical.elasticsearch_answers import DESCRIBED, Described, Statistics
from services.lexical.elasticsearch_client import in_time
from services.lexical.elasticsearch_errors import elasticsearch_errors, unknown
from services.lexical.generations import name_of
from services.lexical.mapping import ANALYSIS, Meta
from services.lexical.stamp import refuse_other_stamp, stamp_of

# How long a generation is taken to be as it was: another replica may delete it and begin it anew, or publish it.
REMEMBERED_S = 1.0


@dataclass(frozen=True, slots=True)
class Held:
    """A generation that is there."""

    generation: str
    meta: Meta
    published: bool

    @property
    def declaration(self) -> CollectionDeclaration:
        """What was declared when it began."""
        return self.meta.declaration


class Catalog:
    """Owns the names, and for a moment what was read under them."""

    def __init__(self, client: AsyncElasticsearch, prefix: str) -> None:
        self._client = client
        self._prefix = prefix
        self._remembered: dict[str, tuple[float, Held]] = {}

    def index(self, generation: str) -> str:
        """The index of a generation."""
        return f"{self._prefix}{generation}"

    def writing(self, generation: str) -> str:
        """The alias that documents are written to: writing to the name of an index that has just been deleted would
        make Elasticsearch create it, without a mapping."""
        return f"{self._prefix}{generation}-writing"

    def alias(self, generation: str) -> str:
        """The name under which the published generation is found: the collection's."""
        return f"{self._prefix}{name_of(generation)}"

    async def usable(self, generation: str) -> Held:
        """One that the present mapping fits, read at most a second ago."""
        moment, held = self._remembered.get(generation, (0.0, None))
        if held is None or time.monotonic() - moment > REMEMBERED_S:
            held = await self.held(generation)
            self._remembered[generation] = time.monotonic(), held
        refuse_other_stamp(generation, held.meta.stamp, stamp_of(held.declaration, ANALYSIS))
        return held

    async def held(self, generation: str) -> Held:
        """One, read now. Raises UnknownCollection, also for an index that is not ours."""
        self.forget(generation)
        found = await self._described(self.index(generation))
        if generation not in found:
            raise unknown(generation)
        return found[generation]

    async def all(self) -> dict[str, Held]:
        """Every one of ours, read now."""
        return await self._described(f"{self._prefix}*@*")

    async def counts(self, pattern: str) -> dict[str, int]:
        """Documents that searches see, by index."""
        with elasticsearch_errors():
            answer = await in_time(self._client).indices.stats(
                index=pattern, metric="docs", filter_path="indices.*.primaries.docs.count"
            )
            statistics = Statistics.model_validate(answer.body)
        return {index: one.primaries.docs.count for index, one in statistics.indices.items()}

    def forget(self, generation: str) -> None:
        """What was read of it is no longer so."""
        self._remembered.pop(generation, None)

    @contextmanager
    def watching(self, generation: str) -> Iterator[None]:
        """Around what was begun with a remembered generation: forgets it when it turns out to be gone."""
        try:
            yield
        except UnknownCollection:
            self.forget(generation)
            raise

    async def _described(self, pattern: str) -> dict[str, Held]:
        with elasticsearch_errors():
            answer = await in_time(self._client).indices.get(
                index=pattern, ignore_unavailable=True, filter_path="*.mappings._meta,*.aliases"
            )
            indices = DESCRIBED.validate_python(answer.body)
        held: dict[str, Held] = {}
        for index, described in indices.items():
            meta, generation = described.mappings.meta, index.removeprefix(self._prefix)
            if meta is not None:
                held[generation] = Held(generation, meta, self._is_published(generation, described))
        return held

    def _is_published(self, generation: str, described: Described) -> bool:
        return self.alias(generation) in described.aliases
