"""`python -m evaluator`: the command line; `python -m evaluator serve`: the HTTP service."""

from evaluator.cli import app

app()
