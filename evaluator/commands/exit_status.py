"""Decides the exit status of `run`, `report` and `load`, prints its reason, and writes the gates."""

from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import typer

from evaluator.errors import EvaluationError, WrongOption
from evaluator.experiments.gates import GateOutcome
from evaluator.pages.junit import GateCase, write_junit
from evaluator.progress import say

# 1: a step failed; 2: wrong command line; 3: all files are written, but they leave something open; 4: a gate
# does not hold, or a slowdown was found.
INVALID_RUN = 3
MISSED_GATE = 4


def expect_gates(junit: Path | None, *, judged: bool) -> None:
    """Raises WrongOption where `junit` would have no gate. `judged`: whether the measurement will judge one."""
    if junit is not None and not judged:
        raise WrongOption(f"--junit {junit}: nothing to write: the experiment has no `gates` that its traffic fits")


def end_status(
    name: str,
    doubts: Sequence[str],
    gates: Sequence[GateOutcome],
    junit: Path | None = None,
    compared: Sequence[GateCase] = (),
    *,
    slower: bool = False,
) -> None:
    """Prints a line for each gate, and writes them and the gates of a comparison to `junit`.

    `doubts`: why something stays open. `slower`: a comparison found a slowdown. What was found comes before what
    stays open: raises Exit with status 4 for a slowdown and for a gate whose value is beyond its bound, then with 3
    for a doubt, then with 4 for a gate without a value. Raises EvaluationError when there is no gate to write.
    """
    if gates:
        print("\nGates:\n" + "\n".join(f"  {one.sentence}" for one in gates))
    cases = [*(GateCase(one.what, one.held, one.sentence) for one in gates), *compared]
    if junit is not None:
        if not cases:
            raise EvaluationError(
                f"--junit {junit}: no gate was judged: the experiment {name} has none that its traffic fits"
            )
        write_junit(junit, name, cases)
    missed = [one for one in gates if not one.held]
    if slower:
        _end(MISSED_GATE, "a slowdown was found")
    if beyond := [one.what for one in missed if one.value is not None]:
        _end(MISSED_GATE, f"a gate does not hold: {beyond[0]}")
    if doubts:
        _end(INVALID_RUN, doubts[0])
    if missed:
        _end(MISSED_GATE, f"a gate has no value: {missed[0].what}")


def _end(status: int, reason: str) -> NoReturn:
    say(f"Exit status {status}: {reason}.")
    raise typer.Exit(status)
