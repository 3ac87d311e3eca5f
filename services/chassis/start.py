"""Starts a process: reads its settings, builds its app, serves it."""

import sys
from collections.abc import Callable
from typing import TypeVar

from fastapi import FastAPI

from services.chassis.configuration import ConfigurationError, configuration_errors
from services.chassis.environment import read_settings
from services.chassis.serve import serve
from services.chassis.settings import ServiceSettings

Settings = TypeVar("Settings", bound=ServiceSettings)


def start(service: str, settings: type[Settings], build: Callable[[Settings], FastAPI]) -> None:
    """Serves until a signal ends the process.

    A wrong setting, or a configuration that cannot be used, ends it with status 1 and one sentence on standard error.
    """
    try:
        read = read_settings(settings)
        with configuration_errors():
            app = build(read)
        serve(service, app, read)
    except ConfigurationError as error:
        sys.exit(f"{service}: cannot start: {error}")
