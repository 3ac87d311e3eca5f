"""Makes API keys, and decides by the record of one what it may do and whether it is active. Keeps no key itself."""

import hashlib
import hmac
import re
import secrets
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints

# What a key may do: `search` reads; `index` writes, publishes and judges; `admin` removes, reloads, runs experiments;
# `events` sends events.
KeyScope = Literal["search", "index", "admin", "events"]
KEY_SCOPES: tuple[KeyScope, ...] = get_args(KeyScope)

# What a route needs. `open`: nothing. `internal`: the token of our own processes, which no key replaces.
Scope = Literal["open", "search", "index", "admin", "events", "internal"]

_KEY = re.compile(r"rsk_([0-9a-f]{12})_([0-9a-f]{48})")
# Compared with where no key has the id, so that an unknown id takes as long as a wrong secret.
NO_DIGEST = hashlib.sha256(secrets.token_bytes(32)).hexdigest()

KeyId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{12}$")]
# A name, or several by `*`: that of a key's collections.
CollectionPattern = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_*-]{1,64}$")]
State = Literal["active", "expired", "revoked"]


def _on_one_line(name: str) -> str:
    """Returns a name. Raises ValueError for one that a terminal would not show as it is."""
    if not name.isprintable():
        raise ValueError("a name has no line breaks, tabs or other characters that are not shown")
    return name


class Key(BaseModel):
    """The record of an API key. `digest` is the SHA-256 of the whole key.

    A key has 192 random bits, so a plain hash cannot be reversed by guessing (OWASP asks for slow hashes of passwords,
    which people choose). `collections` are the only ones it may touch, on routes that name one; None: all. Its share:
    `per_second` requests, in bursts of one second's worth, and `at_once` in flight; None: no bound of its own.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: KeyId
    name: Annotated[str, StringConstraints(min_length=1, max_length=100), AfterValidator(_on_one_line)]
    digest: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    scopes: Annotated[tuple[KeyScope, ...], Field(min_length=1)]
    collections: Annotated[tuple[CollectionPattern, ...], Field(min_length=1)] | None = None
    created: AwareDatetime
    expires: AwareDatetime | None = None
    revoked: AwareDatetime | None = None
    per_second: Annotated[float, Field(gt=0, le=1e6)] | None = None
    at_once: Annotated[int, Field(ge=1, le=100_000)] | None = None

    def state(self, now: datetime) -> State:
        """Returns whether the key is active."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and self.expires <= now else "active"

    def may_touch(self, collection: str) -> bool:
        """Returns whether a collection is one of the key's."""
        return self.collections is None or any(fnmatchcase(collection, pattern) for pattern in self.collections)


def new_key(
    name: str,
    scopes: tuple[KeyScope, ...],
    lasts: timedelta | None = None,
    collections: tuple[str, ...] | None = None,
    per_second: float | None = None,
    at_once: int | None = None,
) -> tuple[str, Key]:
    """Makes a key. Returns its text, which nothing keeps, and its record. Raises ValidationError."""
    identity = secrets.token_hex(6)
    text = f"rsk_{identity}_{secrets.token_hex(24)}"
    now = datetime.now(UTC).replace(microsecond=0)
    kept = Key(
        id=identity,
        name=name,
        digest=digest_of(text),
        scopes=scopes,
        collections=collections,
        created=now,
        expires=None if lasts is None else now + lasts,
        per_second=per_second,
        at_once=at_once,
    )
    return text, kept


def digest_of(text: str) -> str:
    """Returns the SHA-256 of a secret, in hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def id_of(text: str) -> str | None:
    """Returns the id that a text names, if it has the form of a key."""
    match = _KEY.fullmatch(text)
    return None if match is None else match[1]


def same_digest(digest: str, other: str) -> bool:
    """Compares two digests in a time that does not reveal where they differ."""
    return hmac.compare_digest(digest.encode(), other.encode())
