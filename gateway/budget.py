"""How a request's time is split among its stages, so that the answer leaves before the deadline."""

import time
from dataclasses import dataclass
from typing import Self

from services.chassis.deadlines import Deadline

# Kept back for fusing, writing the answer and a busy event loop: a tenth of what there is, at least one turn of a busy
# scheduler, at most a quarter second.
RESERVE_SHARE = 0.1
LEAST_RESERVE_S = 0.01
MOST_RESERVE_S = 0.25
# Less than this is no call: the connection alone would use it up.
LEAST_CALL_S = 0.005


@dataclass(frozen=True, slots=True)
class Budget:
    """The moment (monotonic, seconds) at which the stages must be done."""

    ends_at: float

    @classmethod
    def within(cls, deadline: Deadline) -> Self:
        """The deadline less a reserve."""
        return cls(deadline.at - min(MOST_RESERVE_S, max(LEAST_RESERVE_S, RESERVE_SHARE * deadline.remaining_s)))

    def share_s(self, own: float, later: float) -> float:
        """Seconds for a stage of weight `own` when stages of weight `later` follow. 0 when it is not worth a call.

        What an early stage leaves unspent is the later ones'; a hung one cannot take it all.
        """
        remaining = (self.ends_at - time.monotonic()) * own / (own + later)
        return remaining if remaining >= LEAST_CALL_S else 0.0
