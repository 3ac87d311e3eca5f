"""Defines the settings of the dense service, read from DENSE_*, and QDRANT_* for the server."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_settings import SettingsConfigDict

from services.chassis.settings.configuration import variable
from services.chassis.settings.service_settings import HostedApiSettings
from services.contracts.lists import UnionMessage
from services.contracts.passages import MOST_TOKENS, Passages
from services.vectorservice.settings import Directory, Prefix, VectorServiceSettings

Port = Annotated[int, Field(ge=0, le=65_535, description="Port to listen on.")]
Model = Annotated[str, Field(description="An encoder of deploy/models/models.yaml; of an API, its model.")]


class DenseSettings(HostedApiSettings, VectorServiceSettings):
    """The settings: the encoder, and (inherited) its API and the store."""

    model_config = SettingsConfigDict(env_prefix="DENSE_", frozen=True, extra="ignore")

    port: Port = 8002
    directory: Directory = Path(".data/dense")
    prefix: Prefix = "dense."
    encoder: Literal["onnx", "hashing", "openai", "tei"] = Field(
        "onnx",
        description="`hashing` counts shared words: no model, for tests. `openai`, `tei` (Text Embeddings Inference): "
        "all texts go to the API at DENSE_API_URL, in that dialect.",
    )
    model: Model = "all-MiniLM-L6-v2"
    quantisation: Literal["int8"] | None = Field(
        None,
        description="`int8`: `qdrant` and `elasticsearch` find candidates by codes of 8 bits, and score them by the "
        "vectors; another needs a new build.",
    )
    passages: Annotated[
        Passages | Literal["auto", "off"],
        UnionMessage('must be auto, off or, with an overlap of at most half, JSON: {"tokens": 128, "overlap": 32}'),
    ] = Field(
        "auto",
        description="Cuts documents into passages of so many tokens (of an API: words), each with a vector; the best "
        "one counts. `auto`: of what the model reads, overlapping by a quarter, but `off` with an API, `elasticsearch` "
        'or quantisation. As JSON: {"tokens": 128, "overlap": 32}; another needs a new build.',
    )
    query_cache_mb: int = Field(
        0, ge=0, le=65_536, description="Memory for vectors of queries that come again, in MB; 0: none are kept."
    )
    api_dimension: int | None = Field(
        None, ge=1, le=65_536, description="Sent as `dimensions`. Not set: nothing is, and the start finds it."
    )
    api_query_prefix: str = Field("", description="Put before queries; some models need one.")
    api_passage_prefix: str = Field("", description="Put before passages.")

    @model_validator(mode="after")
    def _can_serve_passages(self) -> Self:
        for field, refused in (("store", "elasticsearch"), ("quantisation", "int8")):
            if isinstance(self.passages, Passages) and getattr(self, field) == refused:
                passages, name = (variable(type(self), setting) for setting in ("passages", field))
                raise ValueError(f"{passages}: not for {name}={refused}; leave one of them out.")
        return self

    def passages_of(self, max_tokens: int) -> Passages | None:
        """Returns how documents are cut for an encoder that reads so many tokens; None: not at all."""
        one_vector = self.store == "elasticsearch" or self.quantisation or not self.works_in_process
        if self.passages == "auto" and not one_vector:
            tokens = min(max_tokens, MOST_TOKENS)
            return Passages(tokens=tokens, overlap=tokens // 4)
        return self.passages if isinstance(self.passages, Passages) else None

    @property
    def works_in_process(self) -> bool:
        """Whether queries are encoded by threads of this process."""
        return self.encoder in ("onnx", "hashing")


class BgeSettings(DenseSettings):
    """The settings of a further dense service with BGE, read from DENSE_BGE_*."""

    model_config = SettingsConfigDict(env_prefix="DENSE_BGE_", frozen=True, extra="ignore")

    port: Port = 8006
    directory: Directory = Path(".data/dense_bge")
    prefix: Prefix = "dense_bge."
    model: Model = "bge-small-en-v1.5"


class E5Settings(DenseSettings):
    """The settings of a further dense service with E5, read from DENSE_E5_*."""

    model_config = SettingsConfigDict(env_prefix="DENSE_E5_", frozen=True, extra="ignore")

    port: Port = 8007
    directory: Directory = Path(".data/dense_e5")
    prefix: Prefix = "dense_e5."
    model: Model = "e5-small-v2"


# Services that stand beside one another, each with a model of its own, by name.
SERVICES: Mapping[str, type[DenseSettings]] = {"dense": DenseSettings, "dense_bge": BgeSettings, "dense_e5": E5Settings}
