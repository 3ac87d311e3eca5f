"""Runs `.venv/bin/python -m evaluator`: the command line; `… evaluator serve` runs the HTTP service."""

import sys

try:
    from evaluator.cli import app
    from evaluator.command_line import command_line
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] in ("evaluator", "services"):
        raise
    sys.exit(
        f"evaluator: this Python ({sys.executable}) has no module '{missing.name}': `make install` sets up one "
        "that has, then run .venv/bin/python -m evaluator"
    )

app(prog_name=command_line())
