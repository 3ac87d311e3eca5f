"""The port of the re-ranker: what scores pairs of a query and a passage."""

from collections.abc import Sequence
from typing import Protocol

from services.chassis.deadlines import Deadline


class Scorer(Protocol):
    """Scores passages against a query; higher is more relevant.

    The scores come in the order of the passages, are finite, and do not depend on the other passages, on their
    order, or on what else is being scored at the time. A passage may be empty. When the deadline passes, or the
    caller is cancelled, the work that has not begun is dropped (DeadlineExceeded); when too much is waiting, nothing
    begins (Overloaded). The event loop goes on meanwhile, however long the passages are.
    """

    @property
    def model(self) -> str:
        """The model's name and the first 12 digits of its weights' sha256, as `name@hash`."""
        ...

    @property
    def weight(self) -> float:
        """The share of this model that is recommended when its scores are mixed with the first stage's, 0 to 1."""
        ...

    @property
    def bounded(self) -> bool:
        """Whether scores are shares between 0 and 1; logits are not, their sigmoid is."""
        ...

    @property
    def max_tokens(self) -> int:
        """Tokens of a pair that the model reads; a longer one is cut."""
        ...

    async def score(self, query: str, passages: Sequence[str], deadline: Deadline) -> tuple[float, ...]:
        """One score a passage."""
        ...

    async def score_until(self, query: str, passages: Sequence[str], deadline: Deadline) -> tuple[float | None, ...]:
        """One score a passage as far as there is time, then None; later passages go without before earlier ones do.

        Never too late and never DeadlineExceeded.
        """
        ...

    async def lengths(self, query: str, passages: Sequence[str], deadline: Deadline) -> tuple[int, ...]:
        """Tokens of each pair, the special ones among them, before anything is cut."""
        ...

    async def close(self) -> None:
        """Ends the workers. Nothing may be scored afterwards."""
        ...
