"""Starts the dense service: `python -m services.dense`."""

from services.chassis.environment import read_or_exit
from services.chassis.serve import serve
from services.dense.app import build_app
from services.dense.settings import Settings

if __name__ == "__main__":
    settings = read_or_exit(Settings)
    serve("dense", build_app(settings), settings)
