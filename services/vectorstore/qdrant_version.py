"""Owns the version of the Qdrant server: which are supported, which one answers, what it can do."""

import logging
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from services.chassis.errors import UpstreamFailed
from services.vectorstore.representation import MultiVector, Representation, Storage

logger = logging.getLogger(__name__)

SUPPORTED = "1.16 and newer are supported"
_OLDEST = (1, 16)  # the first with metadata on collections
_STOPS_WRITES = (1, 17)  # 1.16.3 answers a timeout of a write with 400, "expected struct Duration"
# The first with TurboQuant of 1 bit and of 8 bits a component.
_FIRST_WITH: dict[Storage, tuple[int, int]] = {"bits": (1, 18), "int8": (1, 20)}
# Seconds for which a known version is reused. Reading it costs one small GET.
VERSION_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class QdrantVersion:
    """The version that a server reports, as text and as (major, minor)."""

    text: str
    number: tuple[int, int]

    @classmethod
    def of(cls, text: str) -> "QdrantVersion":
        """Parses `1.16.3` or `1.17.0-dev`. Raises UpstreamFailed if it is no version, or too old."""
        found = re.match(r"(\d+)\.(\d+)", text)
        if found is None:
            raise UpstreamFailed(f"What answers at QDRANT_URL gives no version of Qdrant ({text!r}); {SUPPORTED}.")
        number = (int(found[1]), int(found[2]))
        if number < _OLDEST:
            raise UpstreamFailed(f"Qdrant {text} at QDRANT_URL is too old: {SUPPORTED}, so update it.")
        return cls(text, number)

    def refuse(self, representation: Representation) -> None:
        """Raises UpstreamFailed if the server has no storage for this representation."""
        storage = representation.storage if isinstance(representation, MultiVector) else "fp32"
        first = _FIRST_WITH.get(storage, _OLDEST)
        if self.number < first:
            raise UpstreamFailed(
                f"Qdrant {self.text} at QDRANT_URL cannot store token vectors as {storage}: update it to "
                f"{first[0]}.{first[1]}, or store them as fp16."
            )

    @property
    def stops_writes(self) -> bool:
        """Whether requests that change points may carry a timeout."""
        return self.number >= _STOPS_WRITES


class VersionCache:
    """Caches the version that `ask` returned, for VERSION_SECONDS: a server can be replaced while we run."""

    def __init__(self, ask: Callable[[], Awaitable[str]]) -> None:
        self._ask = ask
        self._known: tuple[float, QdrantVersion] | None = None
        self.last: str | None = None

    async def version(self) -> QdrantVersion:
        """Returns the version, cached or read anew. Raises what `ask` raises, and UpstreamFailed if it is too old."""
        if self._known is not None and time.monotonic() - self._known[0] < VERSION_SECONDS:
            return self._known[1]
        return await self.refresh()

    async def refresh(self) -> QdrantVersion:
        """Reads the version from the server; raises as `version` does."""
        self.forget()
        text = await self._ask()
        if text != self.last:
            logger.info("Qdrant %s answers; %s.", text, SUPPORTED)
            self.last = text
        version = QdrantVersion.of(text)
        self._known = (time.monotonic(), version)
        return version

    def forget(self) -> None:
        """Drops the cached version: after a failure another server may answer."""
        self._known = None
