"""Settings of the evaluator's HTTP service."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from services.chassis.settings import ServiceSettings


class EvaluatorSettings(ServiceSettings):
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
    gateway_url: str = Field(
        "http://127.0.0.1:8000",
        validation_alias="GATEWAY_URL",
        description="Where the gateway is.",
    )
    runs: Path = Field(Path(".runs"), description="The folder that holds the runs, one folder each.")
