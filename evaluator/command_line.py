"""How this program is called on this machine, for the commands that it prints: they must work as they stand."""

import os
import shlex
import sys
from pathlib import Path


def command_line(*words: str) -> str:
    """A call of the evaluator with the interpreter that runs now, as a line for the shell.

    `python` alone may be another one, without what we need.
    """
    return shlex.join([_interpreter(), "-m", "evaluator", *words])


def _interpreter() -> str:
    # By its path from here where it lies here (.venv/bin/python): the module is found from the same place.
    path = Path(sys.executable)
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
