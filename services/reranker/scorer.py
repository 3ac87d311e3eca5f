"""Defines the port of the re-ranker: Scorer. Implementations: scorer_*.py, services/inference."""

from collections.abc import Sequence
from typing import Protocol

from services.chassis.deadlines import Deadline
from services.inference.partial_scores import PartialScores
from services.inference.passages import Split


class Scorer(Protocol):
    """Scores passages against a query; higher is more relevant.

    Scores are finite and in the order of the passages. The score of a passage does not depend on the other passages,
    their order, or concurrent requests. A passage may be empty. When the deadline passes (DeadlineExceeded) or the
    caller is cancelled, work that has not begun is dropped. When the queue is full, nothing begins (Overloaded).
    Scoring never blocks the event loop, however long the passages are.

    With `split`, which has a title for each passage, a longer one is cut into parts of so many tokens, each with the
    title in front. Its score is that of its best part, and None unless all were scored; the first MOST_PASSAGES are
    read. A passage that fits in one part is scored as without `split`.
    """

    @property
    def model(self) -> str:
        """The model's name and the first 12 hexadecimal digits of its weights' sha256, `name@hash`; else `name@api`."""
        ...

    @property
    def weight(self) -> float:
        """The recommended weight of its scores when they are mixed with those of the first stage, 0 to 1."""
        ...

    @property
    def bounded(self) -> bool:
        """Whether scores lie in [0, 1]. Logits do not; their sigmoid does."""
        ...

    @property
    def max_tokens(self) -> int:
        """The most tokens of a pair that the model reads; a longer pair is cut."""
        ...

    async def score(
        self, query: str, passages: Sequence[str], deadline: Deadline, split: Split | None = None
    ) -> tuple[float, ...]:
        """Returns one score for each passage."""
        ...

    async def score_until(
        self, query: str, passages: Sequence[str], deadline: Deadline, split: Split | None = None
    ) -> PartialScores:
        """Returns one score for each passage, None for the last ones if time does not suffice for all.

        If these are too few, reports how long enough of them take. Returns by the deadline, without DeadlineExceeded.
        """
        ...

    async def lengths(self, query: str, passages: Sequence[str], deadline: Deadline) -> tuple[int, ...]:
        """Counts the tokens of each pair, special tokens included, before truncation."""
        ...

    async def close(self) -> None:
        """Stops the workers. No other method may be called afterwards."""
        ...
