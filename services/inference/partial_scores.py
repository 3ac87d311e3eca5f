"""Defines the result of scoring until a deadline: the scores there was time for, and the time that more take."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PartialScores:
    """One score per passage, in the order sent; None for those that the deadline left no time for.

    `needs_s`: where fewer than LEAST_SCORED of more have a score, the seconds that this many take on an idle machine,
    so that a caller can distinguish overload from a deadline that is too short by itself; else, or if unknown, None.
    """

    scores: tuple[float | None, ...]
    needs_s: float | None = None
