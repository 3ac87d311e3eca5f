"""Splits a request's time among its stages, so that the answer leaves before the deadline."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from services.chassis.deadlines import FOR_A_SEARCH, MOST_MS, WRITING_S_PER_HIT, Deadline

# No call gets less than this: the connection alone would use it up.
LEAST_CALL_S = 0.005
# Seconds of a call of work in the background: the most that a service takes.
CALL_S = MOST_MS / 1_000


@dataclass(frozen=True, slots=True)
class Budget:
    """The time (seconds of a monotonic clock) at which the stages must be done."""

    ends_at: float
    clock: Callable[[], float] = time.monotonic

    @classmethod
    def within(cls, deadline: Deadline) -> Self:
        """Returns the budget of a deadline: the deadline less a reserve."""
        return cls(FOR_A_SEARCH.before(deadline).at)

    def share_s(self, own: float, later: float, hits: int = 0, calls: int = 1, most: float = 1.0) -> float:
        """Returns the seconds for a stage of weight `own`, before stages of weight `later` and writing `hits` hits.

        A stage gets at most the share `most` of the time left. Returns 0 if that is too little for the stage's `calls`.
        Time that an early stage leaves goes to later ones; a hung stage cannot use up all of it.
        """
        remaining = (self.ends_at - hits * WRITING_S_PER_HIT - self.clock()) * min(most, own / (own + later))
        return remaining if remaining >= calls * LEAST_CALL_S else 0.0

    def remaining_s(self) -> float:
        """Returns the seconds for a call that is the last one of its request."""
        return self.share_s(1.0, 0.0)
