"""Computes a digest of all documents of a generation, by which two services compare their contents."""

import hashlib
from collections.abc import Iterable

_MODULUS = 1 << 256


class ContentDigest:
    """Sums sha256(id, content hash) of each document modulo 2^256, so that the order of documents does not matter."""

    def __init__(self) -> None:
        self._sum = 0

    def add(self, documents: Iterable[tuple[str, str]]) -> None:
        """Adds pairs of id and content hash."""
        for document_id, content_hash in documents:
            one = hashlib.sha256(f"{document_id}\0{content_hash}".encode()).digest()
            self._sum = (self._sum + int.from_bytes(one)) % _MODULUS

    def hexdigest(self) -> str:
        """Returns the digest as 64 hexadecimal digits."""
        return f"{self._sum:064x}"
