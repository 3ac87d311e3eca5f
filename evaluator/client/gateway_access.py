"""Opens a gateway: chooses the key to send and the authority to trust, and checks where a key may go.

The command line and its load generators read it from the environment, the service from its settings.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr
from pydantic_settings import SettingsConfigDict

from evaluator.errors import EvaluationError
from services.chassis.settings.addresses import may_carry_secret, plain_refusal, server_address
from services.chassis.settings.configuration import ConfigurationError, read_settings
from services.chassis.settings.service_settings import CallerSettings, Token, fits_a_header
from services.chassis.settings.trust import context_for

TRUSTED = "EVALUATOR_TRUSTED_PLAIN"


def _one_word(key: SecretStr) -> SecretStr:
    if not fits_a_header(key):
        raise ValueError("a key is one word of printable ASCII characters, as `.venv/bin/python -m gateway keys` makes")
    return key


class AccessSettings(CallerSettings):
    """Settings by which the evaluator opens a gateway, beside STACK_TOKEN."""

    gateway_api_key: Annotated[SecretStr, AfterValidator(_one_word)] | None = Field(
        None,
        validation_alias="GATEWAY_API_KEY",
        description="The key that the evaluator sends to the gateway; not set: the first STACK_TOKEN, if there is one.",
    )


class CommandAccess(AccessSettings):
    """What the command line reads of the environment."""

    model_config = SettingsConfigDict(
        env_prefix="EVALUATOR_", frozen=True, extra="ignore", env_ignore_empty=True, populate_by_name=True
    )

    token: Token | None = Field(None, validation_alias="STACK_TOKEN", description="Sent where there is no key.")


@dataclass(frozen=True, slots=True)
class GatewayAccess:
    """The key for a gateway and how it is reached; no repr shows the key."""

    key: SecretStr | None = None
    source: str = "GATEWAY_API_KEY"  # the variable that the key is from
    ca_file: Path | None = None
    trusted_plain: tuple[str, ...] = ()

    def expect_safe(self, url: str) -> None:
        """Raises EvaluationError where the key would travel unencrypted, or the URL is no address."""
        try:
            server_address(url)
        except ValueError as error:
            raise EvaluationError(f"the gateway's URL: {error}") from error
        if self.key is not None and not may_carry_secret(url, self.trusted_plain):
            raise EvaluationError(plain_refusal(self.source, url, TRUSTED))

    def headers(self, url: str) -> dict[str, str]:
        """Returns the header that opens a gateway, if there is a key. Raises EvaluationError as `expect_safe` does."""
        self.expect_safe(url)
        return {} if self.key is None else {"authorization": f"Bearer {self.key.get_secret_value()}"}

    def context(self, url: str = "https:") -> ssl.SSLContext:
        """Returns the TLS context for a URL, or any; it checks certificate and host name. Raises EvaluationError."""
        try:
            return context_for(url, self.ca_file)
        except ConfigurationError as error:
            raise EvaluationError(str(error)) from error


def access_of(settings: AccessSettings, token: SecretStr | None) -> GatewayAccess:
    """Returns the access of the settings; without a key it is the first of the tokens that is sent."""
    ca_file, trusted = settings.ca_file, settings.trusted_plain
    if settings.gateway_api_key is not None or token is None:
        return GatewayAccess(settings.gateway_api_key, ca_file=ca_file, trusted_plain=trusted)
    return GatewayAccess(SecretStr(token.get_secret_value().split()[0]), "STACK_TOKEN", ca_file, trusted)


def read_access() -> GatewayAccess:
    """Reads the environment. Raises EvaluationError, naming the variable."""
    try:
        settings = read_settings(CommandAccess)
    except ConfigurationError as error:
        raise EvaluationError(str(error)) from error
    return access_of(settings, settings.token)
