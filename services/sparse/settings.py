"""Defines the settings of the sparse service, read from SPARSE_*, and QDRANT_* for the server."""

from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from services.vectorservice.settings import Directory, Prefix, VectorServiceSettings


class SparseSettings(VectorServiceSettings):
    """The settings: the encoder, and (inherited) the store."""

    model_config = SettingsConfigDict(env_prefix="SPARSE_", frozen=True, extra="ignore")

    port: int = Field(8004, ge=0, le=65_535, description="Port to listen on.")
    store: Literal["edge", "qdrant"] = Field(
        "edge", description="`edge` keeps vectors in this process and its directory, `qdrant` on the server QDRANT_URL."
    )
    directory: Directory = Path(".data/sparse")
    prefix: Prefix = "sparse."
    encoder: Literal["onnx", "hashing"] = Field(
        "onnx", description="`hashing` weighs the words themselves: no model, for tests."
    )
    model: str = Field("splade-tiny-msmarco", description="A sparse-encoder of deploy/models/models.yaml.")
    document_terms: int = Field(
        128, ge=1, le=65_536, description="Most terms of a document, the heaviest; another number needs a new build."
    )
    query_terms: int = Field(
        32, ge=1, le=65_536, description="Most terms of a query that SPLADE weighs; another number needs a new build."
    )
    idf: Path | None = Field(
        None,
        description="IDF of query terms for an inference-free model, a table of workshop/idf.py; another "
        "needs a new build.",
    )
