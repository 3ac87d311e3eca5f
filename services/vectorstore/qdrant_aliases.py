"""Owns the aliases of a Qdrant server, which mark the published generation of each name.

The alias of a name is `<prefix><name>`, on the collection `<prefix><generation>`.
"""

from collections.abc import Mapping

from qdrant_client import models

from services.contracts.generations import name_of
from services.vectorstore.qdrant_connection import QdrantConnection


class QdrantAliases:
    """Reads and moves the aliases that have a prefix; others are left unchanged."""

    def __init__(self, connection: QdrantConnection, prefix: str) -> None:
        self._connection = connection
        self._prefix = prefix

    def alias(self, generation: str) -> str:
        """Returns the alias of a generation's name."""
        return f"{self._prefix}{name_of(generation)}"

    async def holder(self, generation: str) -> str | None:
        """Returns the collection that has the alias of this generation's name, ours or not; None if none has."""
        return (await self._all()).get(self.alias(generation))

    async def move(self, generation: str, holder: str | None) -> None:
        """Moves the alias of the name from `holder` (None: from nowhere) to a generation, in one request."""
        alias = self.alias(generation)
        moves: list[models.AliasOperations] = []
        if holder is not None:
            moves.append(models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=alias)))
        onto = models.CreateAlias(collection_name=f"{self._prefix}{generation}", alias_name=alias)
        moves.append(models.CreateAliasOperation(create_alias=onto))
        async with self._connection.within(generation, writes=True) as seconds:
            await self._connection.clients.writing.update_collection_aliases(moves, timeout=seconds)

    async def published(self) -> Mapping[str, str]:
        """Returns the published generation of each name that has one."""
        found = {
            alias.removeprefix(self._prefix): collection.removeprefix(self._prefix)
            for alias, collection in (await self._all()).items()
            if alias.startswith(self._prefix) and collection.startswith(self._prefix)
        }
        return {name: generation for name, generation in found.items() if name_of(generation) == name}

    async def _all(self) -> dict[str, str]:
        """Returns the collection of every alias on the server."""
        async with self._connection.within("any"):
            answer = await self._connection.clients.reading.get_aliases()
        return {one.alias_name: one.collection_name for one in answer.aliases}
