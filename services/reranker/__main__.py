"""Starts the re-ranker: `python -m services.reranker`."""

from services.chassis.environment import read_or_exit
from services.chassis.serve import serve
from services.reranker.app import build_app
from services.reranker.settings import Settings

if __name__ == "__main__":
    settings = read_or_exit(Settings)
    serve("reranker", build_app(settings), settings)
