"""Our problems in the words of Cohere, Jina, Text Embeddings Inference and OpenAI, for clients written for them.

Statuses are ours where the vendor does not differ in what its clients tell apart; Retry-After and X-Request-Id stay
headers.
"""

from typing import Literal

from services.contracts.base import Wire
from services.contracts.problem import Problem

KIND = "urn:problem:"
INVALID = (400, 422)


class CohereError(Wire):
    """Cohere's v2 errors; `id` is the request's."""

    id: str
    message: str


class CohereOrJinaError(CohereError):
    """What a client of Cohere v1 (`message`) and one of Jina (`detail`) both find their sentence in."""

    detail: str


class TeiError(Wire):
    """Text Embeddings Inference: a sentence, and one of its kinds of error."""

    error: str
    error_type: Literal["Unhealthy", "Backend", "Overloaded", "Validation"]


class OpenAIFault(Wire):
    """What went wrong; `param` is the field at fault, where it is one."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIError(Wire):
    """OpenAI's errors."""

    error: OpenAIFault


def cohere(problem: Problem) -> tuple[int, CohereError]:
    """Cohere answers 400 to whatever is wrong with a body."""
    return _cohere_status(problem), CohereError(id=problem.request_id, message=problem.detail)


def cohere_or_jina(problem: Problem) -> tuple[int, CohereOrJinaError]:
    """The same with both vendors' keys. Jina's clients look no further than whether the status is an error."""
    return _cohere_status(problem), CohereOrJinaError(
        id=problem.request_id, message=problem.detail, detail=problem.detail
    )


def tei(problem: Problem) -> tuple[int, TeiError]:
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


def openai(problem: Problem) -> tuple[int, OpenAIError]:
    """OpenAI answers 400 to a bad body; where it has no `code` for a problem it is our own kind."""
    kind = problem.type.removeprefix(KIND)
    param: str | None = None
    code: str | None = kind
    match problem.status:
        case status if status in INVALID:
            status, name, code = 400, "invalid_request_error", None
            param = problem.errors[0].field if problem.errors else None
        case 404 if kind == "unknown-model":
            status, name, param, code = 404, "invalid_request_error", "model", "model_not_found"
        case 429:
            status, name, code = 429, "rate_limit_error", "rate_limit_exceeded"
        case status if status >= 500:
            name = "server_error"
        case status:
            name = "invalid_request_error"
    return status, OpenAIError(error=OpenAIFault(message=problem.detail, type=name, param=param, code=code))


def _cohere_status(problem: Problem) -> int:
    return 400 if problem.status in INVALID else problem.status
