"""The settings of the dense service, from DENSE_*, and QDRANT_* for the server."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

from services.chassis.settings import ServiceSettings


class Settings(ServiceSettings):
    """What decides how this process encodes, and where it keeps the vectors."""

    model_config = SettingsConfigDict(env_prefix="DENSE_", frozen=True, extra="ignore", populate_by_name=True)

    port: int = Field(8002, ge=0, le=65_535, description="Port to listen on.")
    store: Literal["edge", "qdrant"] = Field(
        "edge", description="`edge` keeps vectors in this process and its directory, `qdrant` on the server QDRANT_URL."
    )
    directory: Path = Field(Path(".data/dense"), description="Where `edge` keeps its vectors; one process a directory.")
    least_free_mb: int = Field(
        256, ge=16, description="With less room on its disk than this, `edge` refuses writes (507); searches go on."
    )
    most_generations: int = Field(
        128,
        ge=1,
        description="Generations of all collections; each costs `edge` a thread and 100 KB of disk.",
    )
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
    grpc: bool = Field(False, description="Talk gRPC to the Qdrant server instead of REST.")
    grpc_port: int = Field(6334, ge=1, le=65_535, description="The server's gRPC port.")
    prefix: str = Field(
        "dense.",
        pattern=r"^[a-z0-9][a-z0-9_.-]{0,31}$",
        description="Put before names on the Qdrant server: two services that share a server need two.",
    )
    qdrant_url: str | None = Field(
        None, validation_alias="QDRANT_URL", description="Address of the Qdrant server, for example http://host:6333."
    )
    qdrant_api_key: SecretStr | None = Field(None, validation_alias="QDRANT_API_KEY", description="Its API key.")
    qdrant_ca_file: Path | None = Field(
        None, validation_alias="QDRANT_CA_FILE", description="PEM file with the authority that signed its certificate."
    )

    @model_validator(mode="after")
    def _server_is_named(self) -> Self:
        if self.store == "qdrant" and not self.qdrant_url:
            raise ValueError(
                "DENSE_STORE=qdrant needs the address of a Qdrant server (1.16 or newer) in QDRANT_URL, for example "
                "http://127.0.0.1:6333; DENSE_STORE=edge needs no server."
            )
        return self
