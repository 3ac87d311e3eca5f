"""Owns how long the answers to wrong keys on one connection are held back. Holds nothing itself: http_protocol.py does.

A connection may be a proxy's, with the requests of many callers: right keys are never held back.
"""

import math

# The second of two wrong keys is answered this long after the first one, and each further one after twice as long.
PAUSE_S = 0.1
MOST_PAUSE_S = 3.2


class KeyPause:
    """The pause of one connection. Times are seconds of the event loop's clock.

    A right key begins anew. So does the end of MOST_PAUSE_S without a wrong one: rarer ones gain nothing by it.
    """

    def __init__(self) -> None:
        self._pause_s = PAUSE_S
        self._until = -math.inf

    def wait_s(self, now: float) -> float:
        """Returns the seconds for which a wrong key is not answered yet."""
        return max(0.0, self._until - now)

    def note_wrong(self, now: float) -> None:
        """Begins a pause: a wrong key was answered."""
        if now > self._until + MOST_PAUSE_S:
            self._pause_s = PAUSE_S
        self._until = now + self._pause_s
        self._pause_s = min(2 * self._pause_s, MOST_PAUSE_S)

    def note_right(self, now: float) -> None:
        """Shortens the pause to the first one: a right key was answered. Wrong keys between right ones are slow too."""
        self._pause_s = PAUSE_S
        self._until = min(self._until, now + PAUSE_S)
