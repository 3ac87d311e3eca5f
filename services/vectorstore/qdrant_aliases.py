"""The aliases of a Qdrant server by which one generation of each name is the published one.

The alias of a name is `<prefix><name>`, on the collection `<prefix><generation>`.
"""

from collections.abc import Mapping

from qdrant_client import models

from services.contracts.generations import name_of
from services.vectorstore.qdrant_connection import QdrantConnection


class QdrantAliases:
    """Reads and moves the aliases under a prefix; others are left alone."""

    def __init__(self, connection: QdrantConnection, prefix: str) -> None:
        self._connection = connection
        self._prefix = prefix

    def alias(self, generation: str) -> str:
        """The alias of a generation's name."""
        return f"{self._prefix}{name_of(generation)}"

    async def holder(self, generation: str) -> str | None:
        """The collection that has the alias of this generation's name, whoever made it; None without one."""
        return (await self._all()).get(self.alias(generation))

    async def move(self, generation: str, holder: str | None) -> None:
        """Puts the alias of its name on a generation, in one request; `holder` has it until then."""
        alias = self.alias(generation)
        moves: list[models.AliasOperations] = []
        if holder is not None:
            moves.append(models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=alias)))
        onto = models.CreateAlias(collection_name=f"{self._prefix}{generation}", alias_name=alias)
        moves.append(models.CreateAliasOperation(create_alias=onto))
        async with self._connection.within(generation) as seconds:
            await self._connection.client.update_collection_aliases(moves, timeout=seconds)

    async def published(self) -> Mapping[str, str]:
        """The published generation of each name that has one."""
        found = {
            alias.removeprefix(self._prefix): collection.removeprefix(self._prefix)
            for alias, collection in (await self._all()).items()
            if alias.startswith(self._prefix) and collection.startswith(self._prefix)
        }
        return {name: generation for name, generation in found.items() if name_of(generation) == name}

    async def _all(self) -> dict[str, str]:
        """Every alias on the server, and its collection."""
        async with self._connection.within("any"):
            answer = await self._connection.client.get_aliases()
        return {one.alias_name: one.collection_name for one in answer.aliases}
