"""Starts a process: reads its settings, builds its app, serves it. Every deployable starts here."""

import sys
from collections.abc import Callable
from typing import TypeVar

from fastapi import FastAPI

from services.chassis.server.serve import serve
from services.chassis.settings.configuration import ConfigurationError, configuration_errors, read_settings
from services.chassis.settings.service_settings import ServiceSettings

Settings = TypeVar("Settings", bound=ServiceSettings)


def start(service: str, settings: type[Settings], build: Callable[[Settings], FastAPI]) -> None:
    """Serves until a signal.

    Exits with status 1 and one sentence on standard error if a setting is wrong or the configuration cannot be used.
    """
    try:
        read = read_settings(settings)
        with configuration_errors():
            app = build(read)
        serve(service, app, read)
    except ConfigurationError as error:
        sys.exit(f"{service}: cannot start: {error}")
