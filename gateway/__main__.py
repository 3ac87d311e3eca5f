"""Starts the gateway: `python -m gateway`."""

import sys

from gateway.app import build_app
from gateway.catalog import PipelineError
from gateway.settings import GatewaySettings
from services.chassis.environment import read_or_exit
from services.chassis.serve import serve

if __name__ == "__main__":
    settings = read_or_exit(GatewaySettings)
    try:
        app = build_app(settings)
    except PipelineError as error:
        sys.exit(f"The gateway cannot start: {error}")
    serve("gateway", app, settings)
