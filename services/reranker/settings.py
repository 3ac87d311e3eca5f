"""Defines the settings of the re-ranker, read from RERANKER_*."""

from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from services.chassis.settings.service_settings import HostedApiSettings, KeyedSettings


class RerankerSettings(HostedApiSettings, KeyedSettings):
    """The settings: model or (inherited) API, batching and caches."""

    model_config = SettingsConfigDict(env_prefix="RERANKER_", frozen=True, extra="ignore")

    port: int = Field(8003, ge=0, le=65_535, description="Port to listen on.")
    scorer: Literal["onnx", "overlap", "cohere", "tei"] = Field(
        "onnx",
        description="`overlap` counts shared words: no model, for tests. `cohere`, `tei` (Text Embeddings Inference): "
        "queries and passages go to the API at RERANKER_API_URL, in that dialect.",
    )
    model: str = Field("minilm-l6-ce-v4", description="One of deploy/models/models.yaml; of an API, its model.")
    models: Path = Field(Path(".models"), description="The directory that `make models` fills.")
    threads: int | None = Field(None, ge=1, description="Workers of one thread; not set: all cores, two with `cuda`.")
    device: Literal["cpu", "cuda"] = Field("cpu", description="`cuda` needs the extra `gpu` in place of `cpu`.")
    max_batch_tokens: int | None = Field(None, ge=8, description="Padded tokens a call; not set: 512, `cuda` 16384.")
    max_waiting_batches: int = Field(
        256, ge=1, description="A client's micro-batches that may wait before those of a request; with more, 429."
    )
    passage_cache_mb: int = Field(
        32, ge=0, le=65_536, description="Memory for the token ids of passages that come again, in MB; 0: none."
    )
    score_cache_mb: int = Field(
        0, ge=0, le=65_536, description="Memory for scores that are not computed again, in MB; 0: none are kept."
    )
    api_weight: float = Field(1.0, ge=0.0, le=1.0, description="Recommended weight of its scores in a mix.")

    @property
    def works_in_process(self) -> bool:
        """Whether passages are scored by threads of this process."""
        return self.scorer in ("onnx", "overlap")
