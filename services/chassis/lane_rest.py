"""Decides how long a lane rests after work, so that another lane has most of the time. Pure: times are passed in."""

from collections.abc import Callable
from dataclasses import dataclass

# A lane rests no longer than this, in seconds: as long as requests may take by default. Work that hung until a long
# deadline would else close the lane to everybody for several times that deadline.
MOST_REST_S = 10.0


@dataclass(frozen=True, slots=True)
class Rest:
    """Bounds a lane to a `share` of the time while another lane works, as far as MOST_REST_S does.

    `begun_beside` returns how many requests the other lane has begun so far.
    """

    begun_beside: Callable[[], int]
    share: float

    def seconds_after(self, took_s: float, begun_before: int) -> float:
        """Returns how long to rest after work of `took_s`; `begun_before`: of the other lane, when it began."""
        if self.begun_beside() == begun_before:
            return 0.0
        return min(MOST_REST_S, took_s * (1.0 / self.share - 1.0))
