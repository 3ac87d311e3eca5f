"""Owns who has logged in with a browser: random cookies, each for a key's id. A restart ends all of them."""

import hashlib
import platform
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.requests import cookie_parser

LASTS_S = 12 * 3_600
MOST_OF_A_KEY = 100  # its oldest session ends when one more begins; those of other keys stay


class Sessions:
    """The sessions of one process. `cookie` is the name of its cookie, which others of the same service do not have.

    The ports of a host share their cookies, and so do the processes behind one address. The name stays over a restart,
    so that a browser does not gather cookies.
    """

    def __init__(self, service: str, port: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.cookie = f"{service}_session_{_hash(f'{platform.node()}:{port}')[:8]}"
        self._clock = clock
        # By the hash of the cookie: the key's id and the end, oldest first. And the hashes of each key, oldest first.
        self._begun: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._of_key: dict[str, OrderedDict[str, None]] = {}

    def __len__(self) -> int:
        """Returns how many sessions are kept."""
        return len(self._begun)

    def begin(self, key_id: str) -> str:
        """Begins a session of a key. Returns the value of its cookie, of which only a hash is kept."""
        value, now = secrets.token_hex(32), self._clock()
        while self._begun and next(iter(self._begun.values()))[1] <= now:
            self._drop(next(iter(self._begun)))
        self._begun[_hash(value)] = (key_id, now + LASTS_S)
        own = self._of_key.setdefault(key_id, OrderedDict())
        own[_hash(value)] = None
        if len(own) > MOST_OF_A_KEY:
            self._drop(next(iter(own)))
        return value

    def key_id(self, cookies: str) -> str | None:
        """Returns the id of the key by which the sender of these cookies has logged in."""
        value = self.value(cookies)
        found = None if value is None else self._begun.get(_hash(value))
        if found is None or found[1] <= self._clock():
            return None
        return found[0]

    def end(self, cookies: str) -> None:
        """Ends the session of these cookies, if there is one."""
        value = self.value(cookies)
        if value is not None:
            self._drop(_hash(value))

    def _drop(self, hashed: str) -> None:
        found = self._begun.pop(hashed, None)
        if found is None:
            return
        own = self._of_key[found[0]]
        del own[hashed]
        if not own:
            del self._of_key[found[0]]

    def value(self, cookies: str) -> str | None:
        """Returns what the cookie of a session holds, whether there is such a session or not."""
        return cookie_parser(cookies).get(self.cookie)  # SimpleCookie stops at the first odd cookie of somebody else


def _hash(value: str) -> str:
    return hashlib.sha256(value.encode()).hexdigest()
