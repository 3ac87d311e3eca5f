"""Records acknowledged writes: for every id, the versions that a service may hold now."""

import hashlib
import math
import random
import time
from collections import Counter
from dataclasses import dataclass, field

from services.inference.passages import lowercase_words
from tests.soak.stack import WORDS

DELETED = 0  # the version of an id whose last write was its deletion


def document(identity: str, version: int) -> dict[str, object]:
    """Returns the document of an id and a version; its words differ from those of every other version."""
    rng = random.Random(f"{identity} {version}")
    mark = hashlib.sha256(f"{identity} {version}".encode()).hexdigest()
    words = [mark[at : at + 6] for at in range(0, 48, 6)]
    words += rng.choices(WORDS, k=4)
    return {"id": identity, "title": f"v{version}", "text": " ".join(words), "metadata": {"own": identity}}


def passage(identity: str, version: int) -> str:
    """Returns the passage that the encoder gets of it."""
    written = document(identity, version)
    return f"{written['title']} {written['text']}"


def own_score(family: str, text: str) -> float:
    """Returns the score of a passage for itself, by the encoder of a vector service that needs no model."""
    counts = Counter(lowercase_words(text))
    match family:
        case "dense":
            return 1.0  # a cosine
        case "sparse":
            return sum(math.log1p(count) ** 2 for count in counts.values())
        case "late_interaction":
            return counts.total() + 1.0  # a cosine for each word, and for the end
    raise ValueError(f"{family} has no vectors")


@dataclass(slots=True)
class Write:
    """One write of an id: its version, when it was first sent, and when it was acknowledged."""

    version: int
    begun: float
    ended: float | None = None


@dataclass(slots=True)
class Ledger:
    """Every write of every id. Versions grow with the order in which writes began."""

    writes: dict[str, list[Write]] = field(default_factory=dict)
    _next: int = 1

    def begin(self, ids: list[str], *, delete: bool = False) -> dict[str, Write]:
        """Records the start of a write of these ids."""
        begun = {}
        for identity in ids:
            begun[identity] = Write(DELETED if delete else self._next, time.monotonic())
            self.writes.setdefault(identity, []).append(begun[identity])
        self._next += 1
        return begun

    def acknowledge(self, begun: dict[str, Write]) -> None:
        """Records that these writes were acknowledged now."""
        for write in begun.values():
            write.ended = time.monotonic()

    def admissible(self, identity: str) -> set[int]:
        """Returns the versions that a service may hold: all but those that ended before an acknowledged one began.

        Overlapping writes may be applied in either order; an unacknowledged write may be applied or not.
        """
        writes = self.writes[identity]
        last = max((write.begun for write in writes if write.ended is not None), default=-1.0)
        possible = {write.version for write in writes if write.ended is None or write.ended >= last}
        if all(write.ended is None for write in writes):
            possible.add(DELETED)
        return possible
