"""LRU cache of passages' token ids, bounded by bytes: the same documents are candidates of many queries."""

import hashlib
import threading
from array import array
from collections.abc import Callable, Mapping, Sequence

from cachetools import LRUCache

Tokenise = Callable[[Sequence[str]], list[list[int]]]

# An entry's share of the cache's three dictionaries, its key and the head of its array, in bytes (CPython 3.11, 64
# bits).
ENTRY_BYTES = 345


class PassageIds:
    """Keeps at most `most_bytes` of ids; the least recently used go first. Safe to use from several threads.

    Ids are kept up to `most_ids` a passage: what a model cuts off anyway is not worth keeping.
    """

    def __init__(self, tokenise: Tokenise, most_bytes: int, most_ids: int) -> None:
        self._tokenise = tokenise
        self._most_ids = most_ids
        self._kept: LRUCache[bytes, array[int]] = LRUCache(most_bytes, getsizeof=_size)
        self._lock = threading.Lock()

    @property
    def used_bytes(self) -> int:
        """Bytes in use, as computed here."""
        return int(self._kept.currsize)

    def of(self, passages: Sequence[str]) -> list[list[int]]:
        """Returns the first `most_ids` ids of each passage, as tokenising afresh gives them."""
        keys = [_key(passage) for passage in passages]
        with self._lock:
            known = {key: ids for key in keys if (ids := self._kept.get(key)) is not None}
        # Tokenised outside the lock: other threads need not wait for it.
        missing = {key: passage for key, passage in zip(keys, passages, strict=True) if key not in known}
        if missing:
            made = self._tokenise(list(missing.values()))
            fresh = {key: _packed(ids[: self._most_ids]) for key, ids in zip(missing, made, strict=True)}
            known |= fresh
            self._keep(fresh)
        return [known[key].tolist() for key in keys]

    def _keep(self, fresh: Mapping[bytes, "array[int]"]) -> None:
        with self._lock:
            for key, ids in fresh.items():
                if _size(ids) <= self._kept.maxsize:
                    self._kept[key] = ids


def _key(passage: str) -> bytes:
    # Lone surrogates, which no UTF-8 has, are told apart too: the tokenizer replaces them, and that is its affair.
    return hashlib.blake2b(passage.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _packed(ids: Sequence[int]) -> "array[int]":
    return array("H" if max(ids, default=0) < 65_536 else "I", ids)


def _size(ids: "array[int]") -> int:
    return ENTRY_BYTES + len(ids) * ids.itemsize
