"""Starts the lexical service: `python -m services.lexical`."""

from services.chassis.environment import read_or_exit
from services.chassis.serve import serve
from services.lexical.app import build_app
from services.lexical.settings import LexicalSettings

if __name__ == "__main__":
    settings = read_or_exit(LexicalSettings)
    serve("lexical", build_app(settings), settings)
