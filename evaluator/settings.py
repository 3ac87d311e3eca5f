"""Settings of the evaluator's HTTP service."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic_settings import SettingsConfigDict

from evaluator.client.gateway_access import TRUSTED, AccessSettings, GatewayAccess, access_of
from services.chassis.settings.addresses import Address, may_carry_secret, plain_refusal
from services.chassis.settings.service_settings import KeyedSettings


def _named(value: object) -> object:
    # Path("") is the working directory, which holds more than datasets.
    if value == "":
        raise ValueError("names a folder that is empty text; leave it out")
    return value


class EvaluatorSettings(AccessSettings, KeyedSettings):
    """Settings of the HTTP service, read once from the environment in `app.main`."""

    model_config = SettingsConfigDict(
        env_prefix="EVALUATOR_",
        frozen=True,
        extra="ignore",
        env_nested_delimiter="__",
        env_ignore_empty=True,
        populate_by_name=True,
    )

    port: int = Field(8009, ge=0, le=65_535, description="Port to listen on.")
    gateway_url: Address = Field(
        "http://127.0.0.1:8000", validation_alias="GATEWAY_URL", description="Where the gateway is."
    )
    search_url: Address | None = Field(
        None, description="Where browsers find the gateway's page, to which the evaluator's then link."
    )
    runs: Path = Field(Path(".runs"), description="The folder that holds the runs, one folder each.")
    datasets: tuple[Annotated[Path, BeforeValidator(_named)], ...] = Field(
        (Path(".datasets"), Path("../shared/datasets"), Path("evaluator/collections")),
        description="The folders beneath which datasets lie that requests may name; `[]`: none.",
    )
    journal: str | None = Field(
        None, description="The journal of online experiments: a folder, or the address of an Elasticsearch."
    )

    @property
    def access(self) -> GatewayAccess:
        """How the gateway is opened."""
        return access_of(self, self.token)

    @model_validator(mode="after")
    def _keeps_its_key(self) -> Self:
        access = self.access
        if access.key is not None and not may_carry_secret(self.gateway_url, self.trusted_plain):
            raise ValueError(f"GATEWAY_URL: {plain_refusal(access.source, self.gateway_url, TRUSTED)}")
        return self
