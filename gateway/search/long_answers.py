"""Keeps answers of megabytes from taking the time of everybody's searches: their client pauses after each."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from services.chassis.errors import Overloaded

# Characters from which on an answer is long.
LONG = 1_000_000
# An answer of 16 MB takes 0.26 s of our event loop. A pause lasts three times as long, so that the long answers to a
# client take a quarter of the time.
PAUSE_S_PER_CHARACTER = 50e-9
# Clients are forgotten whose pauses are over, once there are so many.
MOST_CLIENTS = 1_000


@dataclass(slots=True)
class Reader:
    """A client that reads documents: until when and how long it pauses, and its searches so far that read some."""

    until: float = 0.0
    pause_s: float = 0.0
    searches: int = 0


@dataclass(slots=True)
class Reading:
    """The reading of documents for one answer. Its holder sets the `length` of the answer, in characters."""

    length: int = 0


class LongAnswers:
    """Owns the pauses. One begins only where others searched meanwhile: `begun` tells how many searches have begun."""

    def __init__(self, begun: Callable[[], int], clock: Callable[[], float] = time.monotonic) -> None:
        self._begun = begun
        self._clock = clock
        self._readers: dict[str, Reader] = {}

    @asynccontextmanager
    async def reading(self, client: str, within_s: float, *, searches: bool = False) -> AsyncIterator[Reading]:
        """Lets a client read documents, `searches`: by a search, once its pause is over.

        Raises Overloaded at once if that is not within these seconds.
        """
        reader = self._reader(client)
        while (left_s := reader.until - self._clock()) > 0.0:
            if left_s > within_s:
                detail = "Documents of megabytes wait for searches; try again after the seconds in Retry-After."
                raise Overloaded(detail, retry_after_s=math.ceil(left_s), pauses=True)
            await asyncio.sleep(left_s)
        # Whatever else of it waits comes after this one, which may be as long as the one before.
        paid_s, reader.until = reader.pause_s, self._clock() + reader.pause_s
        of_others, reading = self._begun() - reader.searches, Reading()
        reader.searches += searches
        try:
            yield reading
        finally:
            pauses = reading.length >= LONG and self._begun() - reader.searches > of_others
            reader.pause_s = reading.length * PAUSE_S_PER_CHARACTER if pauses else 0.0
            reader.until = max(self._clock(), reader.until - paid_s) + reader.pause_s

    def _reader(self, client: str) -> Reader:
        if client not in self._readers:
            if len(self._readers) >= MOST_CLIENTS:
                now = self._clock()
                self._readers = {client: reader for client, reader in self._readers.items() if reader.until > now}
            self._readers[client] = Reader()
        return self._readers[client]
