"""Owns how a collection is made on a Qdrant server: its shards, its replicas, what is on the disk, its index."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

# Of HNSW.
HNSW_M, HNSW_EF_CONSTRUCT = 16, 128


@dataclass(frozen=True, slots=True)
class QdrantParameters:
    """The parameters of collections that are created. None: the server's default. Each is a setting of this name."""

    shard_number: int | None = None
    replication_factor: int | None = None
    write_consistency_factor: int | None = None
    on_disk: bool = False
    on_disk_payload: bool | None = None
    hnsw_m: int = HNSW_M
    hnsw_ef_construct: int = HNSW_EF_CONSTRUCT
    quantisation: Literal["int8"] | None = None

    @property
    def stamp(self) -> Mapping[str, str]:
        """What changes the hits, where it is not the default."""
        changed = {
            "m": self.hnsw_m if self.hnsw_m != HNSW_M else None,
            "ef_construct": self.hnsw_ef_construct if self.hnsw_ef_construct != HNSW_EF_CONSTRUCT else None,
            "quantisation": self.quantisation,
            "shards": self.shard_number,
        }
        index = " ".join(f"{name}={value}" for name, value in changed.items() if value is not None)
        return {"index": index} if index else {}


DEFAULT_PARAMETERS = QdrantParameters()
