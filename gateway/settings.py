"""Owns the gateway's settings, read once from the environment (GATEWAY_…)."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator
from pydantic_core import PydanticKnownError
from pydantic_settings import SettingsConfigDict

from gateway.families import FAMILIES, family_names
from services.chassis.settings.addresses import Address, may_carry_secret, plain_refusal
from services.chassis.settings.service_settings import CallerSettings, KeyedSettings
from services.contracts.base import Name


def _known(name: object) -> object:
    """Refuses what is no family in the words that pydantic has for a Literal."""
    if isinstance(name, str) and name in FAMILIES:
        return name
    *others, last = (f"'{known}'" for known in FAMILIES)
    raise PydanticKnownError("literal_error", {"expected": f"{', '.join(others)} or {last}"})


FamilyName = Annotated[str, BeforeValidator(_known)]


class BackendAddress(BaseModel):
    """URL and family of a backend."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    family: FamilyName
    url: Address


DEFAULT_BACKENDS = {
    "lexical": BackendAddress(family="lexical", url="http://127.0.0.1:8001"),
    "dense": BackendAddress(family="dense", url="http://127.0.0.1:8002"),
    "reranker": BackendAddress(family="reranker", url="http://127.0.0.1:8003"),
}


class GatewaySettings(CallerSettings, KeyedSettings):
    """Settings of the gateway: its backends, its pipelines, and limits of calls."""

    model_config = SettingsConfigDict(
        env_prefix="GATEWAY_", frozen=True, extra="ignore", env_ignore_empty=True, populate_by_name=True
    )

    port: int = Field(8000, ge=0, le=65_535, description="Port to listen on.")
    backends: dict[Name, BackendAddress] = Field(
        DEFAULT_BACKENDS,
        description='Backends by name, as JSON: {"lexical": {"family": "lexical", "url": "http://..."}, ...}. '
        "The first one of family lexical is the document store.",
    )
    pipelines: Path = Field(
        Path(__file__).parent / "pipelines", description="Directory of the pipelines (*.yaml) served by name."
    )
    inline_pipelines: bool = Field(True, description="Whether a search may bring its own pipeline.")
    refresh_s: float = Field(
        1.0, gt=0.0, le=60.0, description="Seconds between two looks at which generations the backends hold."
    )
    keep_previous_s: float = Field(
        3_600.0,
        ge=0.0,
        description="Seconds for which the generation that was live before can be gone back to; 0 removes it at once.",
    )
    connect_s: float = Field(0.5, gt=0.0, le=10.0, description="Seconds that a connection to a backend may take.")
    rerank_share: float = Field(
        0.33,
        gt=0.0,
        le=1.0,
        description="Most of the time left, as a share, for a re-ranking of texts that may be skipped.",
    )
    journal: Path | None = Field(
        None, description="Directory of the journal of online experiments and events. Not set: neither is served."
    )
    cors_origins: tuple[Annotated[str, Field(pattern=r"^(\*|https?://[^/*\s]+)$")], ...] = Field(
        (), description='Origins whose pages may call from a browser, as JSON: ["https://shop.example"]; ["*"] is all.'
    )

    trace_query_text: bool = Field(False, description="Whether the traces of searches hold the texts of queries.")
    page: bool = Field(
        True, description="Whether `/` is a page that compares two pipelines, and `/docs` lists the routes."
    )
    evaluator_url: Address | None = Field(
        None, description="Where browsers find the evaluator's pages, to which the gateway's then link."
    )

    @model_validator(mode="after")
    def _has_a_retriever(self) -> Self:
        if not any(FAMILIES[backend.family].retrieves for backend in self.backends.values()):
            families = family_names(lambda family: family.retrieves)
            raise ValueError(f"GATEWAY_BACKENDS: name at least one backend of family {families}")
        return self

    @model_validator(mode="after")
    def _keeps_its_token(self) -> Self:
        for backend in self.backends.values() if self.token is not None else ():
            if not may_carry_secret(backend.url, self.trusted_plain):
                refusal = plain_refusal("STACK_TOKEN", backend.url, "GATEWAY_TRUSTED_PLAIN")
                raise ValueError(f"GATEWAY_BACKENDS: {refusal}")
        return self

    @property
    def sent_token(self) -> SecretStr | None:
        """What the gateway sends with every call to a backend."""
        return SecretStr(self.accepted_tokens[0]) if self.accepted_tokens else None
