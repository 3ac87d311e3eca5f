"""Starts the lexical service: `python -m services.lexical`."""

from services.chassis.server.serve import start
from services.lexical.app import build_app
from services.lexical.settings import LexicalSettings

if __name__ == "__main__":
    start("lexical", LexicalSettings, build_app)
