"""Owns the settings that every process has. Each process subclasses them with a prefix and additions of its own."""

from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, IPvAnyNetwork, SecretStr, StringConstraints, model_validator
from pydantic_settings import SettingsConfigDict

from services.chassis.settings.addresses import Address, is_loopback, may_carry_secret, plain_refusal
from services.chassis.settings.configuration import FileSecretSettings, variable

# Slots for reading the state of collections, which is rare and quick.
CONTROL_SLOTS = 8
LEAST_TOKEN = 24

HostName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]+$|^\[[0-9a-fA-F:.]+\]$", to_lower=True)]


def _strong(token: SecretStr) -> SecretStr:
    """Refuses tokens that could be guessed or that no header can carry."""
    for secret in token.get_secret_value().split() or [""]:
        if len(secret) < LEAST_TOKEN or not (secret.isascii() and secret.isprintable()):
            raise ValueError(
                f"each token needs at least {LEAST_TOKEN} printable ASCII characters; `openssl rand -hex 32` makes one"
            )
    return token


Token = Annotated[SecretStr, AfterValidator(_strong)]


def fits_a_header(key: SecretStr) -> bool:
    """Returns whether a key is one word that a header can carry."""
    value = key.get_secret_value()
    return value.isascii() and value.isprintable() and " " not in value


def _one_word(key: SecretStr) -> SecretStr:
    if not fits_a_header(key):
        raise ValueError("a key is one word of printable ASCII characters, as its store gives it")
    return key


StoreKey = Annotated[SecretStr, AfterValidator(_one_word)]


class CallerSettings(FileSecretSettings):
    """Settings of a caller of our processes: the certificates and hosts that it trusts."""

    ca_file: Path | None = Field(
        None,
        validation_alias="STACK_CA_FILE",
        description="Authority by which our processes check each other's certificates (PEM). Not set: those of the "
        "system.",
    )
    trusted_plain: tuple[HostName, ...] = Field(
        (),
        description="Hosts beside loopback to which a token or a key may travel unencrypted, as JSON: "
        '["lexical", "dense"].',
    )


class ServiceSettings(FileSecretSettings):
    """Settings of a process, read once from the environment in `__main__` and passed down."""

    # A variable that is set but empty, as in compose files and copies of .env.example, counts as not set.
    # An error shows no value: of settings, it may be a secret.
    model_config = SettingsConfigDict(frozen=True, extra="ignore", env_ignore_empty=True, hide_input_in_errors=True)

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(ge=0, le=65_535, description="Port to listen on.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level that is logged.")
    max_in_flight: int = Field(
        32, ge=1, description="Requests worked on at once; writes to collections have half as many slots of their own."
    )
    max_waiting: int = Field(128, ge=0, description="Requests that wait for a slot; the next one gets 429.")
    max_connections: int = Field(2_048, ge=1, description="Connections open at once; above that an idle one is closed.")
    max_body_bytes: int = Field(8_000_000, ge=1_024, description="Largest request body.")
    drain_s: float = Field(
        0.0,
        ge=0.0,
        description="Seconds between failing /readyz and refusing connections on SIGTERM (behind a load balancer).",
    )
    grace_s: int = Field(30, ge=1, description="Seconds that requests in work get to end after SIGTERM.")
    auth: Literal["on", "off"] | None = Field(
        None,
        description="Whether callers need a key or the token. Not set: yes, if others can reach the address to listen "
        "on, or if there is a token or a file of keys.",
    )
    token: Token | None = Field(
        None,
        validation_alias="STACK_TOKEN",
        description="What our own processes send each other. The first of several, separated by spaces, is sent; all "
        "are accepted.",
    )
    hosts: tuple[HostName, ...] = Field(
        (),
        description="Names in `Host` that are answered beside localhost, addresses and names without a dot, as JSON: "
        '["search.example"].',
    )
    proxies: tuple[IPvAnyNetwork, ...] = Field(
        (),
        description="Addresses or networks of reverse proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are "
        'believed, as JSON: ["127.0.0.1", "10.0.0.0/24"].',
    )
    tls_cert_file: Path | None = Field(
        None,
        description="Certificate of the port, with those between it and its authority (PEM); the port then speaks TLS "
        "alone. Read again when it changes.",
    )
    tls_key_file: Path | None = Field(None, description="Private key of that certificate (PEM, not encrypted).")
    metrics_port: int | None = Field(
        None,
        ge=0,
        le=65_535,
        description="Port of /metrics alone, at the same address, in plain HTTP. Not set: it is on the main port.",
    )
    trace_endpoint: Address | None = Field(
        None,
        validation_alias="STACK_TRACE_ENDPOINT",
        description="Where spans are sent, by OTLP over HTTP: http://127.0.0.1:4318/v1/traces. Not set: nothing is "
        "traced.",
    )
    trace_sampled: float = Field(
        0.01,
        ge=0.0,
        le=1.0,
        validation_alias="STACK_TRACE_SAMPLED",
        description="Share of the requests that are traced; a caller's `traceparent` decides for its own.",
    )

    @model_validator(mode="after")
    def _knows_its_callers(self) -> Self:
        if self.authenticates and not self.can_authenticate:
            prefix = self.model_config.get("env_prefix", "")
            reached = "" if self.auth else f"{prefix}HOST={self.host} is reached from other machines: "
            raise ValueError(f"{reached}{self.means_of_access} or say {prefix}AUTH=off.")
        return self

    @model_validator(mode="after")
    def _has_whole_listeners(self) -> Self:
        prefix = self.model_config.get("env_prefix", "")
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            given, missing = ("CERT", "KEY") if self.tls_key_file is None else ("KEY", "CERT")
            raise ValueError(
                f"{prefix}TLS_{given}_FILE is set and {prefix}TLS_{missing}_FILE is not: set both, or neither."
            )
        if self.trace_endpoint and not urlsplit(self.trace_endpoint).path.strip("/"):
            raise ValueError(f"STACK_TRACE_ENDPOINT needs a path: {self.trace_endpoint.rstrip('/')}/v1/traces")
        if self.metrics_port == self.port and self.port:
            raise ValueError(f"{prefix}METRICS_PORT={self.port} is the main port: set another one, or leave it out.")
        return self

    @property
    def authenticates(self) -> bool:
        """Whether callers need a key or the token."""
        if self.auth is None:
            return self.can_authenticate or not is_loopback(self.host)
        return self.auth == "on"

    @property
    def can_authenticate(self) -> bool:
        """Whether a token or keys are configured."""
        return self.token is not None

    @property
    def means_of_access(self) -> str:
        """The sentence that names what to set, so that callers can be known."""
        return "set STACK_TOKEN, which the gateway sends,"

    @property
    def accepted_tokens(self) -> tuple[str, ...]:
        """The tokens of our own processes; the first is the one to send."""
        return () if self.token is None else tuple(self.token.get_secret_value().split())

    @property
    def works_in_process(self) -> bool:
        """Whether requests are worked on in this process, not by servers behind it."""
        return False

    @property
    def write_slots(self) -> int:
        """Writes to collections that run at once, besides other requests."""
        return max(1, self.max_in_flight // 2)

    @property
    def most_at_once(self) -> int:
        """Requests that run at once in all, and so the number of useful connections to a server behind this one."""
        return self.max_in_flight + self.write_slots + CONTROL_SLOTS


class KeyedSettings(ServiceSettings):
    """Settings of a process that others than our own processes call."""

    keys_file: Path | None = Field(
        None, description="API keys, a file of `.venv/bin/python -m gateway keys`; read again when it changes."
    )

    @property
    def can_authenticate(self) -> bool:
        """Whether keys or a token are configured."""
        return self.keys_file is not None or super().can_authenticate

    @property
    def means_of_access(self) -> str:
        """The sentence that names what to set, so that callers can be known."""
        return (
            f"make a key (`.venv/bin/python -m gateway keys new --name me --file keys.json`) and set "
            f"{self.model_config.get('env_prefix', '')}KEYS_FILE to its file, set STACK_TOKEN,"
        )


class HostedApiSettings(ServiceSettings):
    """Settings of a process whose work a vendor's HTTP API may do, unless it `works_in_process`."""

    api_url: Address | None = Field(
        None, description="Base address of the API: https://api.openai.com/v1, https://api.cohere.com; that of TEI."
    )
    api_key: StoreKey | None = Field(None, description="Its key.")
    trusted_plain: tuple[HostName, ...] = Field(
        (), description='Hosts beside loopback to which that key may travel unencrypted, as JSON: ["tei"].'
    )
    api_ca_file: Path | None = Field(
        None, description="Authority that signed its certificate (PEM). Not set: those of the system."
    )
    api_batch: int | None = Field(
        None, ge=1, le=256, description="Texts per request. Not set: 32; 100 of Cohere, which bills them as one search."
    )
    api_in_flight: int = Field(4, ge=1, le=64, description="Requests with passages at once; queries do not wait.")
    api_timeout_s: float = Field(
        30.0, gt=0.0, le=120.0, description="Seconds that one request may take; never more than its caller has left."
    )

    @model_validator(mode="after")
    def _knows_its_api(self) -> Self:
        if not self.works_in_process:
            engine = "encoder" if "encoder" in type(self).model_fields else "scorer"
            chosen = f"{variable(type(self), engine)}={getattr(self, engine)}"
            for field in ("api_url", "model"):
                if field not in self.model_fields_set:
                    raise ValueError(f"{variable(type(self), field)}: set it too, because of {chosen}.")
            if self.api_key and self.api_url and not may_carry_secret(self.api_url, self.trusted_plain):
                key, trusted = (variable(type(self), field) for field in ("api_key", "trusted_plain"))
                raise ValueError(plain_refusal(key, self.api_url, trusted))
        return self
