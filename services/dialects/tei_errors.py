"""Our problems in the words of Text Embeddings Inference, for clients written for it.

Statuses are ours; Retry-After and X-Request-Id stay headers.
"""

from typing import Literal

from services.contracts.base import Wire
from services.contracts.problem import Problem


class TeiError(Wire):
    """Text Embeddings Inference: a sentence, and one of its kinds of error."""

    error: str
    error_type: Literal["Unhealthy", "Backend", "Overloaded", "Validation"]


def tei_wording(problem: Problem) -> tuple[int, TeiError]:
    """TEI knows no deadlines: one that passed is its `Backend`, with our 504."""
    match problem.status:
        case 429:
            return 429, TeiError(error=problem.detail, error_type="Overloaded")
        case 503:
            return 503, TeiError(error=problem.detail, error_type="Unhealthy")
        case status if status >= 500:
            return status, TeiError(error=problem.detail, error_type="Backend")
        case status:
            return status, TeiError(error=problem.detail, error_type="Validation")
