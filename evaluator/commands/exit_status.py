"""Decides the exit status of `run`, `report` and `load`, and prints its reason and the gates."""

from collections.abc import Sequence
from typing import NoReturn

import typer

from evaluator.experiments.gates import GateOutcome
from evaluator.progress import say

# 1: a step failed; 2: wrong command line; 3: all files are written, but they leave something open; 4: a gate
# does not hold, or a slowdown was found.
INVALID_RUN = 3
MISSED_GATE = 4


def end_status(doubts: Sequence[str], gates: Sequence[GateOutcome], *, slower: bool = False) -> None:
    """Prints a line for each gate.

    `doubts`: why something stays open. `slower`: a comparison found a slowdown. What was found comes before what
    stays open: raises Exit with status 4 for a slowdown and for a gate whose value is beyond its bound, then with 3
    for a doubt, then with 4 for a gate without a value.
    """
    if gates:
        print("\nGates:\n" + "\n".join(f"  {one.sentence}" for one in gates))
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
