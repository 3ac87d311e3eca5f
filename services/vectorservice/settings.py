"""Defines the settings of every vector service: where its vectors are stored, and QDRANT_* for that server."""

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_settings import SettingsConfigDict

from services.chassis.settings.addresses import Address, refuse_unencrypted
from services.chassis.settings.service_settings import KeyedSettings, StoreKey
from services.storage.elasticsearch.settings import ElasticsearchSettings
from services.vectorstore.qdrant_parameters import QdrantParameters

Directory = Annotated[Path, Field(description="Where `edge` keeps its vectors; one process per directory.")]
Prefix = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9][a-z0-9_.-]{0,95}$",
        description="Put before names on a server: two services that share one need two.",
    ),
]


class VectorServiceSettings(ElasticsearchSettings, KeyedSettings):
    """The settings of the store, and of any encoder. A service subclasses it with an `env_prefix`, defaults for
    `port`, `directory` and `prefix`, and the settings of its own encoder."""

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
        128, ge=1, description="Generations of all collections; each costs `edge` a thread and 100 KB of disk."
    )
    prefix: Prefix
    qdrant_url: Address | None = Field(
        None, validation_alias="QDRANT_URL", description="Address of the Qdrant server, for example http://host:6333."
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

    shard_number: int | None = Field(
        None, ge=1, description="Shards of a new collection on the Qdrant server; another number needs a new build."
    )
    replication_factor: int | None = Field(None, ge=1, description="Copies of each shard of a new collection there.")
    on_disk: bool = Field(False, description="Vectors of a new collection there are read from the disk.")
    models: Path = Field(Path(".models"), description="The directory that `make models` fills.")
    threads: int | None = Field(None, ge=1, description="Threads that encode; not set: all cores, two with `cuda`.")
    device: Literal["cpu", "cuda"] = Field("cpu", description="`cuda` needs the extra `gpu` in place of `cpu`.")

    @model_validator(mode="after")
    def _parameters_are_for_its_server(self) -> Self:
        parameters = {field.name for field in fields(QdrantParameters)}
        known = {"qdrant": parameters, "elasticsearch": {"quantisation"}}.get(self.store, set())
        if given := sorted(self.model_fields_set & parameters - known):
            prefix = self.model_config.get("env_prefix", "")
            named = ", ".join(f"{prefix}{name}".upper() for name in given)
            raise ValueError(f"{named}: not for {prefix}STORE={self.store}; leave it out, or set {prefix}STORE=qdrant.")
        return self

    @model_validator(mode="after")
    def _server_is_named(self) -> Self:
        if self.store == "qdrant" and not self.qdrant_url:
            store = f"{self.model_config.get('env_prefix', '')}STORE"
            raise ValueError(
                f"{store}=qdrant needs the address of a Qdrant server (1.20 or newer) in QDRANT_URL, for example "
                f"http://127.0.0.1:6333; {store}=edge needs no server."
            )
        return self

    @model_validator(mode="after")
    def _keeps_its_keys_from_others(self) -> Self:
        if self.store == "qdrant" and self.qdrant_url is not None:
            keys = {"QDRANT_API_KEY": self.qdrant_api_key, "QDRANT_SEARCH_API_KEY": self.qdrant_search_api_key}
            refuse_unencrypted("QDRANT_URL", self.qdrant_url, keys)
        if self.store == "elasticsearch":
            self.refuse_unencrypted_elasticsearch()
        return self

    @property
    def qdrant_parameters(self) -> QdrantParameters:
        """The parameters of new collections on the Qdrant server; those without a setting here have their defaults."""
        names = {field.name for field in fields(QdrantParameters)} & type(self).model_fields.keys()
        return QdrantParameters(**{name: getattr(self, name) for name in names})

    @property
    def works_in_process(self) -> bool:
        """Queries are encoded by threads of this process."""
        return True
