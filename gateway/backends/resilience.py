"""Owns the policies for failing backends: circuit breaker, probation and retry budget. Clocks are passed in."""

import math
import random
from collections import deque
from collections.abc import Callable
from typing import Literal

# Of a breaker: the seconds whose outcomes count, how few never open it, the share of failures that does, and for how
# many seconds at least.
WINDOW_S, VOLUME, RATIO, OPEN_S = 10.0, 5, 0.5, 1.0
# Seconds of a probation.
FIRST_S, LONGEST_S = 2.0, 120.0
# Retries in each call, and the most seconds before one.
SHARE, MOST_BACKOFF_S = 0.1, 0.1

Clock = Callable[[], float]
State = Literal["closed", "open", "half-open"]


class Breaker:
    """A circuit breaker. Closed: all calls pass. Open: none. Half-open: one probe at a time, whose outcome decides.

    Opens when at least VOLUME outcomes lie in the last WINDOW_S and the share of failures reaches RATIO, or at
    once by `trip`. Stays open for at least OPEN_S and until `allow_probe`. Calls `on_open` each time it opens: that
    starts the check which calls `allow_probe`.
    """

    def __init__(self, clock: Clock, on_open: Callable[[], None]) -> None:
        self._clock = clock
        self._on_open = on_open
        self._outcomes: deque[tuple[float, bool]] = deque(maxlen=1_000)
        self._state: State = "closed"
        self._opened_at = -math.inf
        self._probe_at: float | None = None

    @property
    def state(self) -> State:
        """The state that the next call meets."""
        return self._state

    def admit(self) -> bool:
        """Returns whether a call may be made now. In half-open state that call is the probe."""
        if self._state == "half-open":
            now = self._clock()
            # A probe without an outcome after OPEN_S no longer blocks the next one.
            if self._probe_at is not None and now - self._probe_at < OPEN_S:
                return False
            self._probe_at = now
            return True
        return self._state == "closed"

    def succeeded(self) -> None:
        """Records an answered call. While open it is ignored: the call was sent before the breaker opened."""
        match self._state:
            case "closed":
                self._record(ok=True)
            case "half-open":
                self._state = "closed"
                self._probe_at = None
                self._outcomes.clear()

    def failed(self) -> None:
        """Records a failure of the backend."""
        match self._state:
            case "closed":
                self._record(ok=False)
                failures = sum(not ok for _, ok in self._outcomes)
                if len(self._outcomes) >= VOLUME and failures >= RATIO * len(self._outcomes):
                    self.trip()
            case "half-open":
                self.trip()

    def abandoned(self) -> None:
        """Records a call that shows nothing about the backend (cancelled, out of time, refused for overload)."""
        self._probe_at = None

    def trip(self) -> None:
        """Opens the breaker at once: the backend is known to hang."""
        self._state = "open"
        self._opened_at = self._clock()
        self._probe_at = None
        self._outcomes.clear()
        self._on_open()

    def allow_probe(self) -> None:
        """Allows one real call as a probe once OPEN_S has passed. Called when the liveness probe is answered."""
        if self._state == "open" and self._clock() - self._opened_at >= OPEN_S:
            self._state = "half-open"

    def _record(self, *, ok: bool) -> None:
        now = self._clock()
        self._outcomes.append((now, ok))
        while self._outcomes[0][0] < now - WINDOW_S:
            self._outcomes.popleft()


class Probation:
    """Computes how long a failed replica waits for its next call while others answer.

    Doubles the wait each time up to LONGEST_S, and resets it once the replica has served for that long.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wait_s = 0.0
        self._serves_since = -math.inf

    def set_aside(self) -> float:
        """Starts a probation and returns its seconds."""
        served_s = self._clock() - self._serves_since
        anew = not self._wait_s or served_s > LONGEST_S
        self._wait_s = FIRST_S if anew else min(LONGEST_S, 2 * self._wait_s)
        self._serves_since = math.inf
        return self._wait_s

    def back(self) -> None:
        """Ends the probation: the replica has answered a call."""
        self._serves_since = self._clock()


class RetryBudget:
    """Limits retries to SHARE of all calls, plus at most `most` saved up (a token bucket)."""

    def __init__(self, *, most: float = 5.0) -> None:
        self._most = most
        self._tokens = most

    def called(self) -> None:
        """Adds the share of a retry that a first attempt earns."""
        self._tokens = min(self._most, self._tokens + SHARE)

    def take(self) -> bool:
        """Spends one retry. Returns False if there is none."""
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True


def backoff_s(jitter: random.Random) -> float:
    """Returns the seconds before a retry: full jitter, so that calls that failed together do not retry together."""
    return jitter.uniform(0.0, MOST_BACKOFF_S)
