"""Which versions of a Qdrant server are supported, which one answers now, and what it can do."""

import logging
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from services.chassis.errors import UpstreamFailed

logger = logging.getLogger(__name__)

SUPPORTED = "1.16 and newer are supported"
_OLDEST = (1, 16)  # the first with metadata on collections
_STOPS_WRITES = (1, 17)  # 1.16.3 answers a timeout of a write with 400, "expected struct Duration"
# How long an update of the server may go unseen. Asking costs one small GET.
VERSION_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class QdrantVersion:
    """The version that a server gives itself. Raises UpstreamFailed in one sentence if it is none or too old."""

    text: str
    number: tuple[int, int]

    @classmethod
    def of(cls, text: str) -> "QdrantVersion":
        """Parses `1.16.3` and `1.17.0-dev`."""
        found = re.match(r"(\d+)\.(\d+)", text)
        if found is None:
            raise UpstreamFailed(f"What answers at QDRANT_URL gives no version of Qdrant ({text!r}); {SUPPORTED}.")
        number = (int(found[1]), int(found[2]))
        if number < _OLDEST:
            raise UpstreamFailed(f"Qdrant {text} at QDRANT_URL is too old: {SUPPORTED}, so update it.")
        return cls(text, number)

    @property
    def stops_writes(self) -> bool:
        """Whether what changes points may carry a timeout."""
        return self.number >= _STOPS_WRITES


class AnsweringServer:
    """Remembers the version that `ask` gave, for VERSION_SECONDS or until forgotten: servers are replaced meanwhile."""

    def __init__(self, ask: Callable[[], Awaitable[str]]) -> None:
        self._ask = ask
        self._known: tuple[float, QdrantVersion] | None = None
        self.last: str | None = None

    async def version(self) -> QdrantVersion:
        """Of the server that answers. Raises what `ask` raises, and UpstreamFailed for a server that is too old."""
        if self._known is not None and time.monotonic() - self._known[0] < VERSION_SECONDS:
            return self._known[1]
        return await self.ask_again()

    async def ask_again(self) -> QdrantVersion:
        """Like `version`, from the server itself."""
        self.forget()
        text = await self._ask()
        if text != self.last:
            logger.info("Qdrant %s answers; %s.", text, SUPPORTED)
            self.last = text
        version = QdrantVersion.of(text)
        self._known = (time.monotonic(), version)
        return version

    def forget(self) -> None:
        """Has the next one ask: after a failure it may be another server."""
        self._known = None
