"""How fast this model goes on this machine now: what a thread needs per padded token, learnt from every micro-batch."""

import threading
import time
from collections.abc import Callable

# The average looks back over about this many padded tokens, eight full micro-batches: a busy neighbour shows within a
# second of work, one slow call does not.
HALF_LIFE_TOKENS = 4_096
# Without news the estimate drifts back to the best seen, by half in this time. Or one stall would keep callers with
# short deadlines from being served at all, and nothing would ever be measured that could put the estimate right.
HALF_LIFE_S = 5.0


class Pace:
    """Safe to use from several threads. `clock` is in seconds, monotonic."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seconds = 0.0
        self._tokens = 0.0
        self._best = float("inf")
        self._seen_at = 0.0

    def saw(self, tokens: int, seconds: float) -> None:
        """A thread took `seconds` for a micro-batch of so many padded tokens."""
        with self._lock:
            kept: float = 0.5 ** (tokens / HALF_LIFE_TOKENS)
            # Sums that fade, and not a mean of ratios: a call over three tokens is nearly all overhead.
            self._seconds = self._seconds * kept + seconds
            self._tokens = self._tokens * kept + tokens
            self._best = min(self._best, self._seconds / self._tokens)
            self._seen_at = self._clock()

    @property
    def token_s(self) -> float:
        """Seconds of one thread per padded token; 0 while nothing is known, so that everything seems possible."""
        with self._lock:
            if not self._tokens:
                return 0.0
            fading: float = 0.5 ** ((self._clock() - self._seen_at) / HALF_LIFE_S)
            return max(self._best, self._seconds / self._tokens * fading)
