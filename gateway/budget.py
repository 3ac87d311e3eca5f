"""How a request's time is split among its stages, so that the answer leaves before the deadline."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from services.chassis.deadlines import Deadline

# Kept back for fusing, writing the answer and a busy event loop: a tenth of what there is, at least one turn of a busy
# scheduler, at most a quarter second.
RESERVE_SHARE = 0.1
LEAST_RESERVE_S = 0.01
MOST_RESERVE_S = 0.25
# What an answer takes for each of its hits, twice the 6 ms that 1,000 took to make and send on two shared cores: a
# re-ranking must not make it late.
WRITING_S_PER_HIT = 12e-6
# Less than this is no call: the connection alone would use it up.
LEAST_CALL_S = 0.005


@dataclass(frozen=True, slots=True)
class Budget:
    """The moment (of a monotonic clock, in seconds) at which the stages must be done."""

    ends_at: float
    clock: Callable[[], float] = time.monotonic

    @classmethod
    def within(cls, deadline: Deadline) -> Self:
        """The deadline less a reserve."""
        return cls(deadline.at - min(MOST_RESERVE_S, max(LEAST_RESERVE_S, RESERVE_SHARE * deadline.remaining_s)))

    def share_s(self, own: float, later: float, hits: int = 0, calls: int = 1) -> float:
        """Seconds for a stage of weight `own` when stages of weight `later` and the writing of `hits` hits follow.

        0 when it is not worth the `calls` that it makes. What an early stage leaves unspent is the later ones'; a hung
        one cannot take it all.
        """
        remaining = (self.ends_at - hits * WRITING_S_PER_HIT - self.clock()) * own / (own + later)
        return remaining if remaining >= calls * LEAST_CALL_S else 0.0
