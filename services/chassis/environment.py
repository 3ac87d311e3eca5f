"""Reads a process's settings from its environment, and names the variable in every error."""

import re
from collections.abc import Iterator
from typing import TypeVar

from pydantic import ValidationError
from pydantic_settings import SettingsError

from services.chassis.configuration import ConfigurationError
from services.chassis.settings import ServiceSettings

Settings = TypeVar("Settings", bound=ServiceSettings)


class BadSettings(ConfigurationError):
    """Invalid settings in the environment. One line for each fault, naming the variable."""


def read_settings(settings: type[Settings]) -> Settings:
    """Reads a process's settings from the environment. Raises BadSettings."""
    try:
        return settings()
    except ValidationError as error:
        faults = (_fault(settings, item["loc"], item["msg"]) for item in error.errors(include_input=False))
        raise BadSettings("\n".join(faults)) from error
    except SettingsError as error:
        field = re.search(r'field "(\w+)"', str(error))
        name = variable(settings, field[1]) if field else "a setting"
        raise BadSettings(f"{name}: it is no JSON ({error.__cause__})") from error


def variables(settings: type[ServiceSettings]) -> Iterator[str]:
    """Returns the environment variables that a process reads."""
    return (variable(settings, name) for name in settings.model_fields)


def variable(settings: type[ServiceSettings], field: str) -> str:
    """Returns the environment variable of a field: its alias, or the prefix and its name."""
    alias = settings.model_fields[field].validation_alias
    return alias if isinstance(alias, str) else f"{settings.model_config.get('env_prefix', '')}{field}".upper()


def _fault(settings: type[ServiceSettings], place: tuple[int | str, ...], message: str) -> str:
    if not place:
        return message.removeprefix("Value error, ")
    first, *deeper = (str(part) for part in place)
    name = variable(settings, first) if first in settings.model_fields else first
    return f"{'.'.join([name, *deeper])}: {message.removeprefix('Value error, ')}"
