"""Reads a process's settings from its environment, and names the variable in every error."""

import re
from typing import TypeVar

from pydantic import ValidationError
from pydantic_settings import BaseSettings, SettingsError

from services.chassis.configuration import ConfigurationError
from services.chassis.secret_files import BadSecretFile
from services.chassis.variables import variable

Settings = TypeVar("Settings", bound=BaseSettings)


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
        raise BadSettings(f"{name}: it is no JSON ({error.__cause__})") from error


def _fault(settings: type[BaseSettings], place: tuple[int | str, ...], message: str) -> str:
    if not place:
        return message.removeprefix("Value error, ")
    first, *deeper = (str(part) for part in place)
    name = variable(settings, first) if first in settings.model_fields else first
    return f"{'.'.join([name, *deeper])}: {message.removeprefix('Value error, ')}"
