"""Renders our problems as errors of Text Embeddings Inference (TEI), for clients written for it.

Statuses and headers (Retry-After, X-Request-Id) are ours.
"""

from typing import Literal

from services.contracts.base import Wire
from services.contracts.problem import Problem


class TeiError(Wire):
    """The body of an error: a sentence, and one of TEI's kinds."""

    error: str
    error_type: Literal["Unhealthy", "Backend", "Overloaded", "Validation"]


def tei_wording(problem: Problem) -> tuple[int, TeiError]:
    """Returns status and body of a problem. TEI has no kind for a passed deadline: it is `Backend`, with our 504."""
    match problem.status:
        case 429:
            return 429, TeiError(error=problem.detail, error_type="Overloaded")
        case 503:
            return 503, TeiError(error=problem.detail, error_type="Unhealthy")
        case status if status >= 500:
            return status, TeiError(error=problem.detail, error_type="Backend")
        case status:
            return status, TeiError(error=problem.detail, error_type="Validation")
