"""Reads the times that services report in Server-Timing, and collects them by stage of a walk. Measures nothing.

A header is foreign input: what is too long, no plain token or no plain number is left out.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from services.chassis.calls.transport import SERVER_TIMING

# Our services report four parts at most, in some 80 characters.
MOST_CHARACTERS = 512
MOST_PARTS = 8
# Digits and a point only, so a number is finite and not negative. Tokens have no dot, so that `<stage>.<part>` is
# unambiguous: stage ids may have dots.
_PART = re.compile(r"[ \t]*([A-Za-z0-9_-]{1,32});dur=([0-9]{1,9}(?:\.[0-9]{1,6})?)[ \t]*", re.ASCII)
# The whole time of a service is the sum of its parts and its own handling: not a part.
_WHOLE = "total"

_collected: ContextVar[dict[str, float] | None] = ContextVar("collected", default=None)


def parse_parts(header: str) -> dict[str, float]:
    """Returns the milliseconds of each part in a Server-Timing header, without `total`. Repeated parts are added."""
    parts: dict[str, float] = {}
    if len(header) > MOST_CHARACTERS:
        return parts
    for item in header.split(","):
        found = _PART.fullmatch(item)
        if found is None or found[1] == _WHOLE or (len(parts) == MOST_PARTS and found[1] not in parts):
            continue
        parts[found[1]] = parts.get(found[1], 0.0) + float(found[2])
    return parts


@contextmanager
def collected_parts() -> Iterator[Mapping[str, float]]:
    """Collects the parts of all calls that are answered within the block, also by tasks begun in it."""
    parts: dict[str, float] = {}
    token = _collected.set(parts)
    try:
        yield parts
    finally:
        _collected.reset(token)


def record_parts(headers: Mapping[str, str]) -> None:
    """Adds the parts that the headers of a usable answer report to those of the stage that asked for it."""
    collected = _collected.get()
    if collected is None or SERVER_TIMING not in headers:
        return
    for part, ms in parse_parts(headers[SERVER_TIMING]).items():
        if part in collected or len(collected) < MOST_PARTS:
            collected[part] = collected.get(part, 0.0) + ms
