"""LRU cache of passages' token ids, bounded by bytes: the same documents are candidates of many queries."""

import hashlib
import threading
from array import array
from collections.abc import Callable, Mapping, Sequence

from cachetools import LRUCache

Tokenise = Callable[[Sequence[str]], list[list[int]]]

# Bytes of one entry besides its ids: its key, its array's header, its share of the cache's three dictionaries
# (CPython 3.11, 64 bits).
ENTRY_BYTES = 345


class PassageIdCache:
    """Keeps at most `max_bytes` of token ids and evicts the least recently used passage. Thread-safe.

    Keeps at most `max_ids` ids a passage, because the model truncates the rest, or as many as a call asks for.
    """

    def __init__(self, tokenise: Tokenise, max_bytes: int, max_ids: int) -> None:
        self._tokenise = tokenise
        self._max_ids = max_ids
        self._entries: LRUCache[bytes, array[int]] = LRUCache(max_bytes, getsizeof=_size)
        self._lock = threading.Lock()

    @property
    def used_bytes(self) -> int:
        """Computed size of all entries, in bytes."""
        return int(self._entries.currsize)

    def token_ids(self, passages: Sequence[str], max_ids: int | None = None) -> list[list[int]]:
        """Returns the first `max_ids` token ids of each passage, equal to those of a new tokenisation."""
        most = max_ids or self._max_ids
        keys = [_key(passage, most) for passage in passages]
        with self._lock:
            known = {key: ids for key in keys if (ids := self._entries.get(key)) is not None}
        # Tokenised outside the lock, so that other threads can go on.
        missing = {key: passage for key, passage in zip(keys, passages, strict=True) if key not in known}
        if missing:
            tokenised = self._tokenise(list(missing.values()))
            fresh = {key: _packed(ids[:most]) for key, ids in zip(missing, tokenised, strict=True)}
            known |= fresh
            self._store(fresh)
        return [known[key].tolist() for key in keys]

    def _store(self, fresh: Mapping[bytes, "array[int]"]) -> None:
        with self._lock:
            for key, ids in fresh.items():
                if _size(ids) <= self._entries.maxsize:
                    self._entries[key] = ids


def _key(passage: str, most: int) -> bytes:
    # surrogatepass: UTF-8 has no lone surrogates, but two texts that differ in one need different keys.
    content = passage.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=16, salt=most.to_bytes(8, "little")).digest()


def _packed(ids: Sequence[int]) -> "array[int]":
    return array("H" if max(ids, default=0) < 65_536 else "I", ids)


def _size(ids: "array[int]") -> int:
    return ENTRY_BYTES + len(ids) * ids.itemsize
