"""Owns one lock per collection, so that this gateway begins, switches and removes its generations one at a time.

Several gateways are not kept apart: services compare builds and versions for that.
"""

import asyncio
from weakref import WeakValueDictionary


class CollectionLocks:
    """Holds the locks in use, by collection."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, name: str) -> asyncio.Lock:
        """Returns the lock of a collection."""
        return self._locks.setdefault(name, asyncio.Lock())
