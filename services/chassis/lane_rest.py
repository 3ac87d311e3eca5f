"""Decides how long a lane rests after work, so that another lane has most of the time."""

import time
from collections.abc import Callable


class Rest:
    """Bounds the time of a lane while another one works: after work of t seconds it rests for t * (1 / share - 1)."""

    def __init__(self, begun_beside: Callable[[], int], share: float) -> None:
        """`begun_beside` returns how much work the other lane has begun so far."""
        self.begun_beside = begun_beside
        self._share = share
        self._until = float("-inf")

    def ended(self, took_s: float, begun_before: int) -> None:
        """Records work. `begun_before`: what the other lane had begun when it began."""
        if self.begun_beside() != begun_before:
            self._until = time.monotonic() + took_s * (1.0 / self._share - 1.0)

    @property
    def left_s(self) -> float:
        """The seconds until the lane may begin work again."""
        return max(0.0, self._until - time.monotonic())
