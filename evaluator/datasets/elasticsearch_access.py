"""Reads the key and the authority of an Elasticsearch whose statistics (`--processes`) or documents are read."""

import ssl
from pathlib import Path

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from evaluator.errors import EvaluationError
from services.chassis.settings.addresses import may_carry_secret
from services.chassis.settings.configuration import ConfigurationError, FileSecretSettings, read_settings
from services.chassis.settings.service_settings import StoreKey
from services.chassis.settings.trust import caller_context


class ElasticsearchAccess(FileSecretSettings):
    """The variables that the lexical service reads too."""

    model_config = SettingsConfigDict(env_prefix="ELASTICSEARCH_", frozen=True, extra="ignore", env_ignore_empty=True)

    api_key: StoreKey | None = Field(None, description="Its API key, base64 as Elasticsearch gives it.")
    ca_file: Path | None = Field(None, description="The CA that signed its certificate (PEM).")

    def headers(self, url: str) -> dict[str, str]:
        """Returns the header with the key, if there is one. Raises EvaluationError where it would be unencrypted."""
        if self.api_key is None:
            return {}
        if not may_carry_secret(url):
            raise EvaluationError(
                f"{url}: ELASTICSEARCH_API_KEY would travel unencrypted: name Elasticsearch by https://"
            )
        return {"authorization": f"ApiKey {self.api_key.get_secret_value()}"}

    def context(self) -> ssl.SSLContext:
        """Returns the TLS context, which checks certificate and host name. Raises EvaluationError."""
        try:
            return caller_context(self.ca_file, "ELASTICSEARCH_CA_FILE")
        except ConfigurationError as error:
            raise EvaluationError(str(error)) from error


def read_elasticsearch_access() -> ElasticsearchAccess:
    """Reads the environment. Raises EvaluationError, naming the variable."""
    try:
        return read_settings(ElasticsearchAccess)
    except ConfigurationError as error:
        raise EvaluationError(str(error)) from error
