"""Starts the dense service: `python -m services.dense`."""

import sys

from pydantic import ValidationError

from services.chassis.serve import serve
from services.dense.app import build_app
from services.dense.settings import Settings

if __name__ == "__main__":
    try:
        settings = Settings()
    except ValidationError as error:
        sys.exit("\n".join(item["msg"].removeprefix("Value error, ") for item in error.errors()))
    serve("dense", build_app(settings), settings)
