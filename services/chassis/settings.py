"""Owns the settings that every process has. Each process subclasses them with a prefix and additions of its own."""

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

# Slots for reading the state of collections, which is rare and quick.
CONTROL_SLOTS = 8


class ServiceSettings(BaseSettings):
    """Settings of a process, read once from the environment in `__main__` and passed down."""

    # A variable that is set but empty, as in compose files and copies of .env.example, counts as not set.
    model_config = SettingsConfigDict(frozen=True, extra="ignore", env_ignore_empty=True)

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(ge=0, le=65_535, description="Port to listen on.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level that is logged.")
    max_in_flight: int = Field(
        32, ge=1, description="Requests worked on at once; writes to collections have half as many slots of their own."
    )
    max_waiting: int = Field(128, ge=0, description="Requests that wait for a slot; the next one gets 429.")
    max_connections: int = Field(
        2_048, ge=1, description="Connections open at once; above that one that asks nothing is closed."
    )
    max_body_bytes: int = Field(8_000_000, ge=1_024, description="Largest request body.")
    drain_s: float = Field(
        0.0,
        ge=0.0,
        description="Seconds between failing /readyz and closing the door on SIGTERM (behind a load balancer).",
    )
    grace_s: int = Field(30, ge=1, description="Seconds that requests in work get to end after SIGTERM.")

    @property
    def works_in_process(self) -> bool:
        """Whether requests are worked on by threads of this process, not by servers behind it."""
        return False

    @property
    def write_slots(self) -> int:
        """Writes to collections that run at once, besides other requests."""
        return max(1, self.max_in_flight // 2)

    @property
    def most_at_once(self) -> int:
        """Requests that run at once in all, and so the number of useful connections to a server behind this one."""
        return self.max_in_flight + self.write_slots + CONTROL_SLOTS
