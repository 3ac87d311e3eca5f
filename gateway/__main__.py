"""Starts the gateway: `python -m gateway`."""

from gateway.app import build_app
from gateway.settings import Settings
from services.chassis.serve import serve

if __name__ == "__main__":
    settings = Settings()
    serve("gateway", build_app(settings), settings)
