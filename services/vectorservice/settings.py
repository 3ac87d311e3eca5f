"""Defines the settings of every vector service: where its vectors are stored, and QDRANT_* for that server."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_settings import SettingsConfigDict

from services.chassis.settings.addresses import Address, refuse_unencrypted
from services.chassis.settings.service_settings import KeyedSettings, StoreKey
from services.storage.elasticsearch.settings import ElasticsearchSettings

Directory = Annotated[Path, Field(description="Where `edge` keeps its vectors; one process a directory.")]
Prefix = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9][a-z0-9_.-]{0,95}$",
        description="Put before names on a server: two services that share one need two.",
    ),
]


class VectorServiceSettings(ElasticsearchSettings, KeyedSettings):
    """The settings of the store. A service subclasses it with an `env_prefix`, defaults for `port`, `directory` and
    `prefix`, and the settings of its encoder."""

    model_config = SettingsConfigDict(populate_by_name=True)

    store: Literal["edge", "qdrant", "elasticsearch"] = Field(
        "edge",
        description="`edge` keeps vectors in this process and its directory, `qdrant` on the server QDRANT_URL, "
        "`elasticsearch` dense ones alone at ELASTICSEARCH_URL.",
    )
    directory: Directory
    least_free_mb: int = Field(
        256, ge=16, description="With less room on its disk than this, `edge` refuses writes (507); searches go on."
    )
    most_generations: int = Field(
        128,
        ge=1,
        description="Generations of all collections; each costs `edge` a thread and 100 KB of disk.",
    )
    grpc: bool = Field(False, description="Talk gRPC to the Qdrant server instead of REST.")
    grpc_port: int = Field(6334, ge=1, le=65_535, description="The server's gRPC port.")
    prefix: Prefix
    qdrant_url: Address | None = Field(
        None,
        validation_alias="QDRANT_URL",
        description="Address of the Qdrant server, for example http://host:6333.",
    )
    qdrant_api_key: StoreKey | None = Field(None, validation_alias="QDRANT_API_KEY", description="Its API key.")
    qdrant_search_api_key: StoreKey | None = Field(
        None,
        validation_alias="QDRANT_SEARCH_API_KEY",
        description="A key that may only read, for searches and all other reads; the other one then only writes.",
    )
    qdrant_ca_file: Path | None = Field(
        None, validation_alias="QDRANT_CA_FILE", description="PEM file with the authority that signed its certificate."
    )

    @model_validator(mode="after")
    def _server_is_named(self) -> Self:
        if self.store == "qdrant" and not self.qdrant_url:
            store = f"{self.model_config.get('env_prefix', '')}STORE"
            raise ValueError(
                f"{store}=qdrant needs the address of a Qdrant server (1.16 or newer) in QDRANT_URL, for example "
                f"http://127.0.0.1:6333; {store}=edge needs no server."
            )
        return self

    @model_validator(mode="after")
    def _keeps_its_keys_from_others(self) -> Self:
        if self.store == "qdrant" and self.qdrant_url is not None:
            # For gRPC too: the client takes the scheme of QDRANT_URL for both.
            keys = {"QDRANT_API_KEY": self.qdrant_api_key, "QDRANT_SEARCH_API_KEY": self.qdrant_search_api_key}
            refuse_unencrypted("QDRANT_URL", self.qdrant_url, keys)
        if self.store == "elasticsearch":
            self.refuse_unencrypted_elasticsearch()
        return self

    @property
    def works_in_process(self) -> bool:
        """Queries are encoded by threads of this process."""
        return True
