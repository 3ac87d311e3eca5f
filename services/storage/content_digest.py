"""One number over all documents of a generation, by which two services tell whether they hold the same."""

import hashlib
from collections.abc import Iterable

_MODULUS = 1 << 256


class ContentDigest:
    """Adds up sha256(id, content hash) of each document modulo 2^256: stores list documents in orders of their own."""

    def __init__(self) -> None:
        self._sum = 0

    def add(self, documents: Iterable[tuple[str, str]]) -> None:
        """Takes pairs of id and content hash in."""
        for document_id, content_hash in documents:
            one = hashlib.sha256(f"{document_id}\0{content_hash}".encode()).digest()
            self._sum = (self._sum + int.from_bytes(one)) % _MODULUS

    def hexdigest(self) -> str:
        """64 hexadecimal digits."""
        return f"{self._sum:064x}"
