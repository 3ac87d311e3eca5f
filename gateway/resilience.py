"""When to stop asking a backend, when to ask again, and how often a question may be repeated. Clocks are passed in."""

import math
import random
from collections import deque
from collections.abc import Callable
from typing import Literal

Clock = Callable[[], float]
State = Literal["closed", "open", "half-open"]


class Breaker:
    """Closed: all calls pass. Open: none does. Half-open: one probe at a time, whose outcome closes or opens it.

    Opens when at least `volume` outcomes lie in the last `window_s` and the share of failures reaches `ratio`, or at
    once by `trip`. Stays open for `open_s` at least, and until `process_answers` says that somebody is there again.
    Whoever makes a breaker says in `on_open` what finds that out: it is called each time the breaker opens.
    """

    def __init__(
        self,
        clock: Clock,
        on_open: Callable[[], None],
        *,
        window_s: float = 10.0,
        volume: int = 5,
        ratio: float = 0.5,
        open_s: float = 1.0,
    ) -> None:
        self._clock = clock
        self._on_open = on_open
        self._window_s = window_s
        self._volume = volume
        self._ratio = ratio
        self._open_s = open_s
        self._outcomes: deque[tuple[float, bool]] = deque(maxlen=1_000)
        self._state: State = "closed"
        self._opened_at = -math.inf
        self._probe_at: float | None = None

    @property
    def state(self) -> State:
        """What the breaker does with the next call."""
        return self._state

    def admit(self) -> bool:
        """Whether a call may be made now. In half-open the caller who hears yes carries the probe."""
        if self._state == "half-open":
            now = self._clock()
            # A probe that has not come back for as long as we stay open does not keep the others waiting.
            if self._probe_at is not None and now - self._probe_at < self._open_s:
                return False
            self._probe_at = now
            return True
        return self._state == "closed"

    def succeeded(self) -> None:
        """A call was answered. One that was sent before the breaker opened proves nothing about now."""
        match self._state:
            case "closed":
                self._record(ok=True)
            case "half-open":
                self._state = "closed"
                self._probe_at = None
                self._outcomes.clear()

    def failed(self) -> None:
        """A call failed in a way that says something of the backend."""
        match self._state:
            case "closed":
                self._record(ok=False)
                failures = sum(not ok for _, ok in self._outcomes)
                if len(self._outcomes) >= self._volume and failures >= self._ratio * len(self._outcomes):
                    self.trip()
            case "half-open":
                self.trip()

    def abandoned(self) -> None:
        """A call ended without telling anything of the backend (cancelled, out of time, told to come back later)."""
        self._probe_at = None

    def trip(self) -> None:
        """Opens at once: the backend is known to hang."""
        self._state = "open"
        self._opened_at = self._clock()
        self._probe_at = None
        self._outcomes.clear()
        self._on_open()

    def process_answers(self) -> None:
        """The backend's process answers its liveness probe: once `open_s` has passed, a real call may try."""
        if self._state == "open" and self._clock() - self._opened_at >= self._open_s:
            self._state = "half-open"

    def _record(self, *, ok: bool) -> None:
        now = self._clock()
        self._outcomes.append((now, ok))
        while self._outcomes[0][0] < now - self._window_s:
            self._outcomes.popleft()


class Probation:
    """How long a replica that was set aside waits for its next call while others answer.

    Twice as long each time, up to `longest_s`; the shortest again after it has served for that long.
    """

    def __init__(self, clock: Clock, *, first_s: float = 2.0, longest_s: float = 120.0) -> None:
        self._clock = clock
        self._first_s = first_s
        self._longest_s = longest_s
        self._wait_s = 0.0
        self._serves_since = -math.inf

    def set_aside(self) -> float:
        """The seconds that it has to wait."""
        served_s = self._clock() - self._serves_since
        anew = not self._wait_s or served_s > self._longest_s
        self._wait_s = self._first_s if anew else min(self._longest_s, 2 * self._wait_s)
        self._serves_since = math.inf
        return self._wait_s

    def back(self) -> None:
        """It has answered a call, and serves again."""
        self._serves_since = self._clock()


class RetryBudget:
    """Repeats are at most a `share` of all calls, beyond a few that are always there after quiet times."""

    def __init__(self, *, share: float = 0.1, most: float = 5.0) -> None:
        self._share = share
        self._most = most
        self._tokens = most

    def called(self) -> None:
        """A first attempt was made: it earns a share of a repeat."""
        self._tokens = min(self._most, self._tokens + self._share)

    def take(self) -> bool:
        """Whether one repeat may be made now; if so it is spent."""
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True


def backoff_s(jitter: random.Random, *, most_s: float = 0.1) -> float:
    """Seconds before a repeat: full jitter, so that callers who failed together do not come back together."""
    return jitter.uniform(0.0, most_s)
