"""Starts the lexical service: `python -m services.lexical`."""

from services.chassis.serve import serve
from services.lexical.app import build_app
from services.lexical.settings import Settings

if __name__ == "__main__":
    settings = Settings()
    serve("lexical", build_app(settings), settings)
