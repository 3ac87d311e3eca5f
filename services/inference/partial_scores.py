"""Owns what scoring until a deadline gives: as many scores as there was time for, and the time that more would take."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PartialScores:
    """One score a passage, in the order sent; None for those that the deadline left no time for.

    `needs_s`: where fewer than LEAST_SCORED of more have a score, the seconds in which that many would have one with
    nothing else to do. So a caller can distinguish overload from a deadline that is too
    short by itself. None where enough have a score, and where the time is not known.
    """

    scores: tuple[float | None, ...]
    needs_s: float | None = None
