"""Defines what every source of documents yields, and collects its faults and omissions."""

from collections import Counter
from collections.abc import Mapping

from evaluator.errors import DatasetError

# The place of a document (file:line), and the document as a line of corpus.jsonl has it.
PlacedDocument = tuple[str, Mapping[str, object]]

MOST_NAMED = 10
MOST_SHOWN = 3  # in a row of a table
_WRONG = ""  # the kind of faults, which make no row


class ReadingNotes:
    """Collects faults, so that one look shows all of them. Names the first ten of a kind, and counts the others."""

    def __init__(self) -> None:
        self._first: dict[str, list[str]] = {}
        self._counts: Counter[str] = Counter()

    def wrong(self, fault: DatasetError | str) -> None:
        """Adds a fault; the message begins with its place."""
        self.left_out(_WRONG, str(fault))

    def left_out(self, what: str, place: str) -> None:
        """Adds an omission or a change that is no fault. `what`: its kind, in the plural."""
        self._counts[what] += 1
        first = self._first.setdefault(what, [])
        if len(first) < MOST_NAMED:
            first.append(place)

    def expect_nothing_wrong(self) -> None:
        """Raises DatasetError with a line for each of the first faults, and the number of the others."""
        if faults := self._first.get(_WRONG):
            raise DatasetError("\n".join([*faults, *self._others(_WRONG)]))

    @property
    def rows(self) -> tuple[tuple[str, str, str], ...]:
        """What is left out or changed, of each kind: what it is, how often, and the first places."""
        return tuple(
            (what, str(self._counts[what]), ", ".join([*places[:MOST_SHOWN], *self._others(what, MOST_SHOWN)]))
            for what, places in self._first.items()
            if what != _WRONG
        )

    def _others(self, kind: str, most: int = MOST_NAMED) -> list[str]:
        more = self._counts[kind] - most
        return [f"and {more} more"] if more > 0 else []
