"""Runs `.venv/bin/python -m evaluator`: the command line; `… evaluator serve` runs the HTTP service."""

import sys
from functools import partial

try:
    from evaluator.cli import app
    from evaluator.command_line import command_line
    from services.files.disk_writes import end_command
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] in ("evaluator", "retrieval_client", "services"):
        raise
    sys.exit(
        f"evaluator: this Python ({sys.executable}) has no module '{missing.name}': `make install` sets up one "
        "that has, then run .venv/bin/python -m evaluator"
    )

end_command("evaluator", partial(app, prog_name=command_line()))
