"""Reads a process's settings from its environment, and secrets from the files that it names there.

Every error names the variable. A variable with the suffix `_FILE` names the file of a secret, as Docker mounts it.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsError

from services.chassis.errors import ProblemError
from services.files.regular_file import read_regular
from services.files.text_encoding import NotUtf8, text_of

FILE_SUFFIX = "_FILE"
MOST_BYTES = 16_384

Settings = TypeVar("Settings", bound=BaseSettings)


class ConfigurationError(Exception):
    """The configuration cannot be used; the message is one sentence that states what to change."""


@contextmanager
def configuration_errors() -> Iterator[None]:
    """Converts ProblemError and OSError, raised while a process builds and opens its parts, to ConfigurationError."""
    try:
        yield
    except ProblemError as error:
        raise ConfigurationError(error.detail) from error
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        raise ConfigurationError(f"{where}{error.strerror or error}") from error


class BadSettings(ConfigurationError):
    """Invalid settings in the environment. One line for each fault, naming the variable."""


def read_settings(settings: type[Settings]) -> Settings:
    """Reads a process's settings from the environment. Raises BadSettings."""
    try:
        return settings()
    except BadSecretFile as error:
        raise BadSettings(str(error)) from error
    except ValidationError as error:
        faults = (_fault(settings, item["loc"], item["msg"]) for item in error.errors(include_input=False))
        raise BadSettings("\n".join(faults)) from error
    except SettingsError as error:
        field = re.search(r'field "(\w+)"', str(error))
        name = variable(settings, field[1]) if field else "a setting"
        raise BadSettings(f"{name}: it is not JSON ({error.__cause__})") from error


def _fault(settings: type[BaseSettings], place: tuple[int | str, ...], message: str) -> str:
    if not place:
        return message.removeprefix("Value error, ")
    first, *deeper = (str(part) for part in place)
    name = variable(settings, first) if first in settings.model_fields else first
    return f"{'.'.join([name, *deeper])}: {message.removeprefix('Value error, ')}"


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


class BadSecretFile(ValueError):
    """A secret cannot be read from its file, or stands in the environment too. The message names the variable."""


class SecretFiles(PydanticBaseSettingsSource):
    """A source of settings: the secrets whose files the environment names. White space around a secret is removed."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Returns the secret of one field, or None. Raises BadSecretFile."""
        return _secret(variable(self.settings_cls, field_name)), field_name, False

    def __call__(self) -> dict[str, Any]:
        """Returns the secrets that have files. Raises BadSecretFile."""
        return {
            self._key(field): secret
            for field in secret_fields(self.settings_cls)
            if (secret := _secret(variable(self.settings_cls, field))) is not None
        }

    def _key(self, field: str) -> str:
        alias = self.settings_cls.model_fields[field].validation_alias
        return alias if isinstance(alias, str) else field


class FileSecretSettings(BaseSettings):
    """Settings whose secrets may be in files."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Reads arguments, the environment, and the files that it names for secrets."""
        return init_settings, env_settings, SecretFiles(settings_cls)


def _secret(name: str) -> str | None:
    file = os.environ.get(name + FILE_SUFFIX)
    if not file:
        return None
    if os.environ.get(name):
        raise BadSecretFile(f"{name} and {name}{FILE_SUFFIX} are both set: keep one of them.")
    try:
        content = read_regular(Path(file), MOST_BYTES)
    except OSError as error:
        raise BadSecretFile(f"{name}{FILE_SUFFIX}: {file}: {error.strerror}.") from error
    try:
        text = text_of(content).strip()
    except NotUtf8 as error:
        raise BadSecretFile(f"{name}{FILE_SUFFIX}: {file} is {error}.") from error
    if not text:
        raise BadSecretFile(f"{name}{FILE_SUFFIX}: {file} is empty.")
    return text
