"""Starts the sparse service: `python -m services.sparse`."""

from services.chassis.server.serve import start
from services.sparse.app import build_app
from services.sparse.settings import SparseSettings

if __name__ == "__main__":
    start("sparse", SparseSettings, build_app)
