"""Owns the settings of the lexical service, from LEXICAL_* and ELASTICSEARCH_*."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator
from pydantic_settings import SettingsConfigDict

from services.chassis.settings.service_settings import ServiceSettings
from services.storage.elasticsearch.settings import ElasticsearchSettings


class LexicalSettings(ElasticsearchSettings, ServiceSettings):
    """Settings of the lexical service: its engine, and where it stores documents."""

    # A variable that is set but empty, as in compose files, counts as not set.
    model_config = SettingsConfigDict(
        env_prefix="LEXICAL_",
        env_nested_delimiter="__",
        env_ignore_empty=True,
        frozen=True,
        extra="ignore",
        populate_by_name=True,
    )

    port: int = Field(8001, ge=0, le=65_535, description="Port to listen on.")
    engine: Literal["edge", "elasticsearch"] = Field(
        "edge", description="`edge` runs in this process and needs no server, `elasticsearch` asks ELASTICSEARCH_URL."
    )
    directory: Path = Field(
        Path(".data/lexical"), description="Where the engine `edge` keeps its collections; for one process only."
    )
    least_free_mb: int = Field(
        256, ge=16, description="With less room on its disk than this, `edge` refuses writes (507); searches go on."
    )
    most_generations: int = Field(
        128, ge=1, description="Generations of all collections; each costs `edge` a thread and 100 KB of disk."
    )
    index_prefix: str = Field(
        "",
        pattern=r"^([a-z0-9][a-z0-9_.-]{0,63})?$",
        description="Put before the names of indices and aliases, where an Elasticsearch is shared.",
    )
    shards: int = Field(
        1, ge=1, le=64, description="Parts of each new Elasticsearch index; rankings and scores are those of one part."
    )
    replicas: int = Field(0, ge=0, le=9, description="Copies of each new Elasticsearch index beside the first.")

    @model_validator(mode="after")
    def _keeps_its_keys_from_others(self) -> Self:
        if self.engine == "elasticsearch":
            self.refuse_unencrypted_elasticsearch()
        return self

    @property
    def works_in_process(self) -> bool:
        """The engine `edge` searches in this process."""
        return self.engine == "edge"
