"""Decides how long a lane rests after work, so that another lane has most of the time. Pure: times are passed in."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rest:
    """Bounds a lane to a `share` of the time while another lane works.

    `begun_beside` returns how many requests the other lane has begun so far.
    """

    begun_beside: Callable[[], int]
    share: float

    def seconds_after(self, took_s: float, begun_before: int) -> float:
        """Returns how long to rest after work of `took_s`; `begun_before`: of the other lane, when it began."""
        return took_s * (1.0 / self.share - 1.0) if self.begun_beside() != begun_before else 0.0
