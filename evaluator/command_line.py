"""Builds calls of the evaluator for messages, so that printed commands can be copied and run."""

import os
import shlex
import sys
from pathlib import Path


def command_line(*words: str) -> str:
    """Returns a shell line that calls the evaluator with the running interpreter.

    `python` alone may be another one, without the dependencies.
    """
    return shlex.join([_interpreter(), "-m", "evaluator", *words])


def _interpreter() -> str:
    # Relative when below the working directory (.venv/bin/python), where the module is found too.
    path = Path(sys.executable)
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
