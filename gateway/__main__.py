"""Starts the gateway: `python -m gateway`."""

from gateway.app import build_app
from gateway.settings import GatewaySettings
from services.chassis.start import start

if __name__ == "__main__":
    start("gateway", GatewaySettings, build_app)
