"""Owns the parameters of new collections on a Qdrant server: shards, replicas, vectors on disk, codes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class QdrantParameters:
    """The parameters of collections that are created. None: the server's default. Each is a setting of this name."""

    shard_number: int | None = None
    replication_factor: int | None = None
    on_disk: bool = False
    quantisation: Literal["int8"] | None = None

    @property
    def stamp(self) -> Mapping[str, str]:
        """The parameters that change hits, where they are not the defaults."""
        changed = {"quantisation": self.quantisation, "shards": self.shard_number}
        index = " ".join(f"{name}={value}" for name, value in changed.items() if value is not None)
        return {"index": index} if index else {}


DEFAULT_PARAMETERS = QdrantParameters()
