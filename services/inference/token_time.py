"""Estimates how long a thread needs for one padded token on this machine now: an exponential moving average."""

import threading
import time
from collections.abc import Callable

# Weight halves over eight full micro-batches: load on the machine shows within a second of work, and one slow call
# hardly counts.
HALF_LIFE_TOKENS = 4_096
# Without new measurements the estimate decays towards the lowest seen, by half in this time. Otherwise, after one
# stall, requests with short deadlines would never be tried, and no measurement could correct the estimate.
HALF_LIFE_S = 5.0
# The lowest seen may be too high: a process that starts on a busy machine measures that first. A request that would be
# refused by it is tried nevertheless where nothing was measured for so long.
TRIAL_S = 1.0


class TokenTime:
    """Averages measured micro-batches. Thread-safe. `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seconds = 0.0
        self._tokens = 0.0
        self._lowest = float("inf")
        self._measured_at = 0.0
        self._tried_at = clock()

    def record(self, tokens: int, seconds: float) -> None:
        """Records that one thread took `seconds` for a micro-batch of `tokens` padded tokens."""
        with self._lock:
            decay: float = 0.5 ** (tokens / HALF_LIFE_TOKENS)
            # A ratio of decayed sums, not a mean of ratios: a call over three tokens is nearly all overhead.
            self._seconds = self._seconds * decay + seconds
            self._tokens = self._tokens * decay + tokens
            self._lowest = min(self._lowest, self._seconds / self._tokens)
            self._measured_at = self._clock()

    def take_trial(self) -> bool:
        """Returns whether nothing was measured and no trial taken for TRIAL_S seconds; then one is taken."""
        with self._lock:
            now = self._clock()
            if now - max(self._measured_at, self._tried_at) < TRIAL_S:
                return False
            self._tried_at = now
            return True

    @property
    def lowest_seconds_per_token(self) -> float:
        """The least seconds per padded token so far, about those of an idle machine; 0 before the first measurement."""
        with self._lock:
            return self._lowest if self._tokens else 0.0

    @property
    def seconds_per_token(self) -> float:
        """Seconds of one thread per padded token; 0 before the first measurement, so that nothing is refused."""
        with self._lock:
            if not self._tokens:
                return 0.0
            decay: float = 0.5 ** ((self._clock() - self._measured_at) / HALF_LIFE_S)
            return max(self._lowest, self._seconds / self._tokens * decay)
