"""Owns what scoring until a deadline gives: as many scores as there was time for, and what the time was lost to."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PartialScores:
    """One score a passage, in the order sent; None for those that the deadline left no time for.

    `overloaded`: fewer than LEAST_SCORED of more have a score, and with nothing else to do the deadline would have
    sufficed for that many. Else a deadline that is too short for them by itself would look like overload.
    """

    scores: tuple[float | None, ...]
    overloaded: bool = False
