"""Starts the re-ranker: `python -m services.reranker`."""

from services.chassis.server.serve import start
from services.reranker.app import build_app
from services.reranker.settings import RerankerSettings

if __name__ == "__main__":
    start("reranker", RerankerSettings, build_app)
