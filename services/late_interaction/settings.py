"""Defines the settings of the late-interaction service, read from LATE_INTERACTION_*, and QDRANT_* for the server."""

from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from services.vectorservice.settings import Directory, Prefix, VectorServiceSettings


class LateInteractionSettings(VectorServiceSettings):
    """The settings: the encoder, and (inherited) the store."""

    model_config = SettingsConfigDict(env_prefix="LATE_INTERACTION_", frozen=True, extra="ignore")

    port: int = Field(8005, ge=0, le=65_535, description="Port to listen on.")
    store: Literal["edge", "qdrant"] = Field(
        "edge", description="`edge` keeps vectors in this process and its directory, `qdrant` on the server QDRANT_URL."
    )
    directory: Directory = Path(".data/late_interaction")
    prefix: Prefix = "late_interaction."
    encoder: Literal["onnx", "hashing"] = Field(
        "onnx", description="`hashing` finds equal words only: no model, for tests."
    )
    model: str = Field("bge-small-en-v1.5-tokens", description="A token encoder of deploy/models/models.yaml.")
    storage: Literal["fp16", "turbo4"] = Field(
        "turbo4", description="What is kept of a token's vector: half precision, or codes of 4 bits per component."
    )
    query_tokens: int | None = Field(
        None, ge=3, description="Tokens of a query that are encoded, at most; by default those of the model."
    )
    passage_tokens: int = Field(
        256, ge=3, description="Tokens of a passage that are encoded, at most; a vector is stored for each."
    )
    idf: Path | None = Field(
        None, description="IDF of query tokens, a table of workshop/idf.py; another needs a new build."
    )
