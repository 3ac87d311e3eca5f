"""Owns the keys and tokens by which a process knows its callers, and each key's share of it.

Reads the file of keys again when it changes.
"""

import logging
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from services.files.regular_file import FileSignature, file_signature
from services.keys.key import NO_DIGEST, Key, KeyScope, digest_of, id_of, same_digest
from services.keys.key_file import NEW_KEY, KeyFileError, read_keys

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 0.5
# What is wrong with a secret that a caller sent. Only one who has the key learns that it is expired or revoked.
Refusal = Literal["unknown", "expired", "revoked"]


class KeyShare:
    """A token bucket that holds a second's worth of requests (at least one), and a count of those in flight."""

    def __init__(
        self, per_second: float | None, at_once: int | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_second = per_second
        self._at_once = at_once
        self._clock = clock
        self._most = max(1.0, per_second or 0.0)
        self._left = self._most
        self._filled_at = clock()
        self._in_flight = 0

    def fits(self, per_second: float | None, at_once: int | None) -> bool:
        """Returns whether these are its bounds."""
        return (per_second, at_once) == (self._per_second, self._at_once)

    def wait_s(self) -> float:
        """Takes one request out of the rate and returns 0, or returns the seconds until there is one."""
        if self._per_second is None:
            return 0.0
        now = self._clock()
        self._left = min(self._most, self._left + (now - self._filled_at) * self._per_second)
        self._filled_at = now
        if self._left < 1.0:
            return (1.0 - self._left) / self._per_second
        self._left -= 1.0
        return 0.0

    def enter(self) -> bool:
        """Takes a place in flight. Returns False if all are taken. Whoever enters must leave."""
        if self._at_once is not None and self._in_flight >= self._at_once:
            return False
        self._in_flight += 1
        return True

    def leave(self) -> None:
        """Gives a place in flight back."""
        self._in_flight -= 1


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller that is known. `key` is None for our own processes, which have every scope."""

    key: Key | None
    share: KeyShare

    @property
    def id(self) -> str:
        """The id for logs and limits: that of the key, or `token`."""
        return "token" if self.key is None else self.key.id

    def has(self, scope: KeyScope) -> bool:
        """Returns whether the caller has a scope."""
        return self.key is None or scope in self.key.scopes

    @property
    def is_bound(self) -> bool:
        """Whether the caller may touch some collections alone."""
        return self.key is not None and self.key.collections is not None

    def may_touch(self, collection: str) -> bool:
        """Returns whether the caller may touch a collection."""
        return self.key is None or self.key.may_touch(collection)


class KeyRing:
    """The active keys. A file that is missing holds none; one that is broken leaves the keys before as they are."""

    def __init__(
        self, file: Path | None, tokens: Sequence[str] = (), clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Reads the file. Raises KeyFileError if it is missing or broken: a process must not start without it."""
        self._file = file
        self._clock = clock
        self._tokens = tuple(digest_of(token) for token in tokens)
        self._ours = Principal(None, KeyShare(None, None))
        self._known: dict[str, Principal] = {}
        self._looked_at = clock()
        self._signature: FileSignature | None = None
        self._fault = ""  # of the file, as logged last
        if file is not None:
            self._signature = file_signature(file)
            try:
                self._take(read_keys(file))
            except FileNotFoundError as error:
                raise KeyFileError(
                    f"{file}: there is no such file; `{NEW_KEY} {shlex.quote(str(file))}` makes one."
                ) from error

    def of(self, secret: str) -> Principal | Refusal:
        """Returns the owner of a secret, or why it is refused. Takes the same time for every wrong one."""
        self._read_again()
        digest = digest_of(secret)
        ours = False
        for token in self._tokens:
            ours |= same_digest(token, digest)
        if ours:
            return self._ours
        known = self._known.get(id_of(secret) or "")
        key = None if known is None else known.key
        if not same_digest(NO_DIGEST if key is None else key.digest, digest) or known is None or key is None:
            return "unknown"
        state = key.state(datetime.now(UTC))
        return known if state == "active" else state

    def _read_again(self) -> None:
        now = self._clock()
        if self._file is None or now - self._looked_at < LOOK_EVERY_S:
            return
        self._looked_at = now
        signature = file_signature(self._file)
        if signature == self._signature:
            return
        try:
            self._take(read_keys(self._file))
        except FileNotFoundError:
            self._signature, self._known = signature, {}
            logger.error("the file of keys is gone: no key is active", extra={"file": str(self._file)})
        except KeyFileError as error:
            # Tried again at the next look: what hindered may end without a change of the file.
            if str(error) != self._fault:
                logger.error("the file of keys cannot be read; the keys before stay active: %s", error)
            self._fault = str(error)
        else:
            self._signature, self._fault = signature, ""
            logger.info("keys read", extra={"file": str(self._file), "keys": len(self._known)})

    def _take(self, keys: Sequence[Key]) -> None:
        """Takes new keys. One whose share is unchanged keeps what it has used of it."""
        before = self._known
        self._known = {key.id: _principal(key, before.get(key.id)) for key in keys}


def _principal(key: Key, before: Principal | None) -> Principal:
    if before is not None and before.share.fits(key.per_second, key.at_once):
        return Principal(key, before.share)
    return Principal(key, KeyShare(key.per_second, key.at_once))
