"""Reads secrets from files, as Docker and Kubernetes mount them: `STACK_TOKEN_FILE` names the file of `STACK_TOKEN`."""

import os
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from services.access.regular_file import read_regular
from services.chassis.variables import FILE_SUFFIX, secret_fields, variable
from services.contracts.text_encoding import NotUtf8, text_of

MOST_BYTES = 16_384


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
