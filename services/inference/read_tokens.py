"""Collects how much of the texts that they encode models read, and sums it up for the report of an indexing."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from services.contracts.documents import ReadTokens

# With a larger share of unknown pieces a text counts as foreign to the model: a few emoji or names are less.
FOREIGN_SHARE = 0.1


class TextTokens(NamedTuple):
    """Counts of one text: tokens that its model read, unknown ones among them, and tokens that truncation cut off."""

    read: int
    unknown: int
    cut: int


_texts: ContextVar[list[TextTokens]] = ContextVar("_texts")


@contextmanager
def collected() -> Iterator[list[TextTokens]]:
    """Yields the list to which `record` adds within the block."""
    texts: list[TextTokens] = []
    outside = _texts.set(texts)
    try:
        yield texts
    finally:
        _texts.reset(outside)


def record(texts: Iterable[TextTokens]) -> None:
    """Adds texts to the innermost `collected` around the call; without one, does nothing."""
    _texts.get([]).extend(texts)


def summed(texts: Sequence[TextTokens]) -> ReadTokens | None:
    """Returns the sums over the texts; None where all is read and known, or nothing recorded."""
    longer = [text for text in texts if text.cut]
    foreign = [text for text in texts if text.unknown > FOREIGN_SHARE * text.read]
    if not longer and not foreign:
        return None
    return ReadTokens(
        limit=max((text.read for text in longer), default=0),
        longer=len(longer),
        longer_tokens=sum(text.read + text.cut for text in longer),
        unread=sum(text.cut for text in longer),
        foreign=len(foreign),
        foreign_tokens=sum(text.read for text in foreign),
        unknown=sum(text.unknown for text in foreign),
    )
