"""Defines the settings of the dense service, read from DENSE_*, and QDRANT_* for the server."""

from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from services.vectorservice.settings import Directory, Prefix, VectorServiceSettings


class DenseSettings(VectorServiceSettings):
    """The settings: the encoder, and (inherited) the store."""

    model_config = SettingsConfigDict(env_prefix="DENSE_", frozen=True, extra="ignore")

    port: int = Field(8002, ge=0, le=65_535, description="Port to listen on.")
    directory: Directory = Path(".data/dense")
    prefix: Prefix = "dense."
    encoder: Literal["onnx", "hashing"] = Field(
        "onnx", description="`hashing` counts shared words: no model, for tests."
    )
    model: str = Field("all-MiniLM-L6-v2", description="An encoder of deploy/models/models.yaml.")
    models: Path = Field(Path(".models"), description="The directory that `make models` fills.")
    threads: int | None = Field(None, ge=1, description="Threads that encode; all available cores when not set.")
    device: Literal["cpu", "cuda"] = Field("cpu", description="`cuda` needs the extra `gpu` in place of `cpu`.")
    engine: Literal["onnxruntime", "openvino"] = Field(
        "onnxruntime", description="What runs the graph; `openvino` needs the extra `openvino`."
    )
    arithmetic: Literal["f32", "bf16"] = Field(
        "f32", description="Of floating-point operations; `bf16` needs the engine `openvino` and a CPU that has it."
    )
    query_cache_mb: int = Field(
        0, ge=0, le=65_536, description="Memory for vectors of queries that come again, in MB; 0: none are kept."
    )
