"""Names the environment variables of settings: what a process reads, which of them are secrets, and secrets' files."""

from collections.abc import Iterator
from typing import get_args

from pydantic import SecretStr
from pydantic_settings import BaseSettings

FILE_SUFFIX = "_FILE"


def variable(settings: type[BaseSettings], field: str) -> str:
    """Returns the environment variable of a field: its alias, or the prefix and its name."""
    alias = settings.model_fields[field].validation_alias
    return alias if isinstance(alias, str) else f"{settings.model_config.get('env_prefix', '')}{field}".upper()


def variables(settings: type[BaseSettings]) -> Iterator[str]:
    """Returns the environment variables that a process reads, those that name a secret's file included."""
    yield from (variable(settings, field) for field in settings.model_fields)
    yield from (secret + FILE_SUFFIX for secret in secret_variables(settings))


def secret_variables(settings: type[BaseSettings]) -> Iterator[str]:
    """Returns the environment variables that hold a secret."""
    return (variable(settings, field) for field in secret_fields(settings))


def secret_fields(settings: type[BaseSettings]) -> Iterator[str]:
    """Returns the fields that hold a secret: those of type SecretStr."""
    for name, field in settings.model_fields.items():
        if _holds_secret(field.annotation):
            yield name


def _holds_secret(annotation: object) -> bool:
    return annotation is SecretStr or any(map(_holds_secret, get_args(annotation)))
