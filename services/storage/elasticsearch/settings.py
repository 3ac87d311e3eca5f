"""Owns the settings ELASTICSEARCH_*, which all services that store something there share."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from services.chassis.settings.addresses import Address, refuse_unencrypted
from services.chassis.settings.configuration import FileSecretSettings
from services.chassis.settings.service_settings import StoreKey


class ElasticsearchSettings(FileSecretSettings):
    """The address, keys and refresh mode of the Elasticsearch."""

    elasticsearch_url: Address = Field(
        "http://127.0.0.1:9200", validation_alias="ELASTICSEARCH_URL", description="The Elasticsearch, 8 or 9."
    )
    elasticsearch_api_key: StoreKey | None = Field(
        None, validation_alias="ELASTICSEARCH_API_KEY", description="Its API key, base64 as Elasticsearch gives it."
    )
    elasticsearch_search_api_key: StoreKey | None = Field(
        None,
        validation_alias="ELASTICSEARCH_SEARCH_API_KEY",
        description="A key that may only read, for searches and all other reads; the other one then only writes.",
    )
    elasticsearch_ca_file: Path | None = Field(
        None, validation_alias="ELASTICSEARCH_CA_FILE", description="The CA that signed its certificate (PEM)."
    )
    elasticsearch_refresh: Literal["write", "interval"] = Field(
        "write",
        validation_alias="ELASTICSEARCH_REFRESH",
        description="`write`: searches see a write to a live generation once it is acknowledged; `interval`: up to 1 s "
        "later, also counts and lists of documents, at a lower cost of each write.",
    )

    def refuse_unencrypted_elasticsearch(self) -> None:
        """Raises ValueError if a key would travel unencrypted to another host."""
        keys = {
            "ELASTICSEARCH_API_KEY": self.elasticsearch_api_key,
            "ELASTICSEARCH_SEARCH_API_KEY": self.elasticsearch_search_api_key,
        }
        refuse_unencrypted("ELASTICSEARCH_URL", self.elasticsearch_url, keys)
