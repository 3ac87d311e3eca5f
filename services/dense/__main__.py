"""Starts the dense service: `python -m services.dense`, or a further one: `python -m services.dense dense_bge`."""

import sys

from services.chassis.server.serve import start
from services.dense.app import build_app
from services.dense.settings import SERVICES

if __name__ == "__main__":
    name = sys.argv[1] if len(sys.argv) > 1 else "dense"
    if name not in SERVICES:
        sys.exit(f"dense: cannot start: there is no service {name}; take {' or '.join(SERVICES)}.")
    start(name, SERVICES[name], build_app)
