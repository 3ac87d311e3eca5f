"""Defines the errors that end a step of an evaluation. Each is one sentence that states what to do.

Builds the calls of the evaluator that such sentences name, so that they can be copied and run.
"""

import os
import shlex
import sys
from pathlib import Path

GATEWAY = "http://127.0.0.1:8000"  # where commands look for one unless --gateway says otherwise


class EvaluationError(Exception):
    """A step cannot go on; the files of earlier steps stay usable."""


class WrongOption(EvaluationError):
    """The command line has a wrong value; the message begins with the option. Nothing was done."""


class DatasetError(EvaluationError):
    """A file of the collection is malformed; the message starts with `file:line`."""


def command_line(*words: str, gateway: str = GATEWAY) -> str:
    """Returns a shell line that calls the evaluator with the running interpreter, with --gateway for another one.

    `python` alone may be another one, without the dependencies.
    """
    path = Path(sys.executable)
    # Relative when below the working directory (.venv/bin/python), where the module is found too.
    interpreter = os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
    elsewhere = [] if gateway == GATEWAY else ["--gateway", gateway]
    return shlex.join([interpreter, "-m", "evaluator", *words, *elsewhere])
