"""Starts the gateway: `python -m gateway`."""

import sys

from pydantic import ValidationError
from pydantic_settings import SettingsError

from gateway.app import build_app
from gateway.catalog import PipelineError
from gateway.settings import Settings
from services.chassis.serve import serve

if __name__ == "__main__":
    try:
        settings = Settings()
        app = build_app(settings)
    except ValidationError as error:
        faults = (
            f"GATEWAY_{'.'.join(str(part) for part in item['loc']).upper()}: {item['msg']}" for item in error.errors()
        )
        sys.exit("\n".join(fault.removeprefix("GATEWAY_: Value error, ") for fault in faults))
    except (PipelineError, SettingsError) as error:
        sys.exit(f"The gateway cannot start: {error}")
    serve("gateway", app, settings)
