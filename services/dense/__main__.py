"""Starts the dense service: `python -m services.dense`."""

from services.chassis.start import start
from services.dense.app import build_app
from services.dense.settings import DenseSettings

if __name__ == "__main__":
    start("dense", DenseSettings, build_app)
