"""Computes a digest of all documents of a generation, by which services and exports compare their contents. Pure."""

import hashlib
from collections.abc import Iterable

_MODULUS = 1 << 256


class ContentDigest:
    """Sums sha256(id, content hash) of each document modulo 2^256, so that the order of documents does not matter."""

    def __init__(self, total: int = 0) -> None:
        """Begins with the sum of the addends of some documents."""
        self._sum = total % _MODULUS

    def add(self, documents: Iterable[tuple[str, str]]) -> None:
        """Adds pairs of id and content hash."""
        self._sum = (self._sum + _sum_of(documents)) % _MODULUS

    def remove(self, documents: Iterable[tuple[str, str]]) -> None:
        """Takes pairs away that were added: of documents that are deleted or replaced."""
        self._sum = (self._sum - _sum_of(documents)) % _MODULUS

    def combine(self, change: "ContentDigest") -> None:
        """Adds all that a change has added, and takes away what it has removed."""
        self._sum = (self._sum + change._sum) % _MODULUS

    def hexdigest(self) -> str:
        """Returns the digest as 64 hexadecimal digits."""
        return f"{self._sum:064x}"


def addend(document_id: str, content_hash: str) -> int:
    """Returns what one document adds to a digest: 256 bits."""
    return int.from_bytes(hashlib.sha256(f"{document_id}\0{content_hash}".encode()).digest())


def _sum_of(documents: Iterable[tuple[str, str]]) -> int:
    return sum(addend(document_id, content_hash) for document_id, content_hash in documents)
