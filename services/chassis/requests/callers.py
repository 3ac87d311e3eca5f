"""Keeps in the scope of a request who calls, and reads it there. Knows nobody: access.py does."""

import re

from starlette.types import Scope

from services.access.key_ring import Principal

# By it the gateway names the client whose request it passes on. Read on routes of the scope `internal` alone.
CLIENT_HEADER = "x-client"
_CALLER = "caller"
_COLLECTION = re.compile(r"/v1/collections/([^/]+)")


def keep_caller(scope: Scope, caller: Principal) -> None:
    """Keeps who calls, as soon as that is known."""
    scope[_CALLER] = caller


def caller_of(scope: Scope) -> Principal | None:
    """Returns who calls, where that is known: where callers need a key, and the route is not open to all."""
    caller: Principal | None = scope.get(_CALLER)
    return caller


def collection_of(path: str) -> str | None:
    """Returns the collection that a path names; of a generation, its name."""
    found = _COLLECTION.match(path)
    return None if found is None else found[1].partition("@")[0]
