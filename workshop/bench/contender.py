"""The port of a contender, which scores lists and reports their cost, and its adapter for a worker process.

Knows neither the libraries (peer.py) nor which contenders a run has (contender_setup.py).
"""

import json
import os
import select
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pydantic import TypeAdapter, ValidationError

from services.contracts.base import Wire
from workshop.bench.candidate_lists import CandidateList

# The slowest peer needs some 10 s for a hundred long pairs on two cores, ten times that on a busy machine.
ANSWER_TIMEOUT_S = 900.0
# Set for our own processes; a peer gets its own defaults.
_OURS = ("TOKENIZERS_PARALLELISM", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class ContenderError(Exception):
    """A contender cannot open the model, ended or did not answer; the message is one sentence."""


class ContenderScores(Wire):
    """Scores of lists, one entry a list, with CPU seconds of all threads and wall seconds. Line format of peer.py."""

    scores: tuple[tuple[float, ...], ...]
    cpu_s: tuple[float, ...]
    wall_s: tuple[float, ...]


class Contender(Protocol):
    """Scores lists one after the other; the scores are raw logits in the order of the passages."""

    @property
    def about(self) -> Mapping[str, str]:
        """Versions, threads, and how the contender is told the token limit."""
        ...

    def score(self, lists: Sequence[CandidateList]) -> ContenderScores:
        """Returns scores and cost of each list. Raises ContenderError."""
        ...

    def close(self) -> None:
        """Ends the contender and frees its resources."""
        ...


@dataclass(frozen=True, slots=True)
class ContenderCommand:
    """Arguments and environment that a contender's process is started with."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    library_defaults: bool = False  # without the thread settings of our own Makefile


class ContenderProcess:
    """Runs a contender in a process of its own, which speaks the lines of peer.py."""

    def __init__(self, command: ContenderCommand, log: Path) -> None:
        """Starts the process and waits until its model is open. Raises ContenderError with the process's reason."""
        inherited = {
            name: value for name, value in os.environ.items() if not (command.library_defaults and name in _OURS)
        }
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                list(command.arguments),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=inherited | dict(command.environment),
            )
        try:
            hello = json.loads(self._line())
            if "refused" in hello:
                raise ContenderError(str(hello["refused"]))
            self.about = TypeAdapter(dict[str, str]).validate_python(hello["about"])
        except BaseException:
            self.close()
            raise

    def score(self, lists: Sequence[CandidateList]) -> ContenderScores:
        """See Contender."""
        request = {"lists": [{"query": each.query, "passages": each.passages} for each in lists]}
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            return ContenderScores.model_validate_json(self._line())
        except (BrokenPipeError, ValidationError) as error:
            raise ContenderError(f"It gave no scores; {self._log} says why.") from error

    def close(self) -> None:
        """Closes the process's input, and kills it when it does not end within 10 s."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(10.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], ANSWER_TIMEOUT_S)
        line = self._process.stdout.readline() if ready else b""
        if not line:
            what = "ended" if ready else f"was silent for {ANSWER_TIMEOUT_S:.0f} s"
            raise ContenderError(f"It {what}; {self._log} says why.")
        return line
