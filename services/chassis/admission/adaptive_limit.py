"""Decides how much work is in flight at once: additive increase, multiplicative decrease. Pure: times are passed in."""

SHRINK = 0.9
# Weight of one request in the means: the last 20 or so count.
SMOOTHING = 0.05


class AdaptiveLimit:
    """A limit on the cost of the requests in flight, from `least` to `most` (AIMD; Chiu and Jain 1989).

    It grows by one each time as many requests as it admits have ended well while others waited. It shrinks by a tenth
    where one met overload, once within the time that this request took: all that were in flight beside it met the
    same overload. `least` equal to `most` is a fixed limit.
    """

    def __init__(self, start: float, most: float, least: float = 1.0) -> None:
        self.value = max(least, min(most, start))
        self._least = least
        self._most = most
        self._mean_s = 0.0
        self._paced_s = 0.0
        self._paced_cost = 0.0
        self._ended_at: float | None = None
        self._shrunk_at = float("-inf")

    @property
    def expected_s(self) -> float:
        """How many seconds a request takes, by those that have ended; 0 before the first."""
        return self._mean_s

    def expected_wait_s(self, cost_ahead: float) -> float:
        """Returns how many seconds pass until requests of this total cost have been admitted.

        By the seconds from end to end while others waited; before the first such end by Little's law.
        """
        pace_s = self._paced_s / self._paced_cost if self._paced_cost else self._mean_s / self.value
        return cost_ahead * pace_s

    def ended(
        self, took_s: float, cost: float, now: float, *, overloaded: bool, others_wait: bool, excused: bool = False
    ) -> None:
        """Records a request that ended `now` (of any monotonic clock) after `took_s`, and whether it met overload.

        The limit does not shrink for one that is `excused`: fewer at once would not have helped it. It was worked on
        alone, or had too little time anyway.
        """
        self._mean_s += (took_s - self._mean_s) * (SMOOTHING if self._mean_s else 1.0)
        if others_wait and self._ended_at is not None:
            # A ratio of decayed sums: a mean of ratios would count a cheap request as much as a costly one.
            self._paced_s = self._paced_s * (1.0 - SMOOTHING) + now - self._ended_at
            self._paced_cost = self._paced_cost * (1.0 - SMOOTHING) + cost
        self._ended_at = now if others_wait else None
        if overloaded:
            if not excused and now - self._shrunk_at > took_s:
                self._shrunk_at = now
                self.value = max(self._least, self.value * SHRINK)
        elif others_wait:
            self.value = min(self._most, self.value + min(1.0, cost / self.value))
