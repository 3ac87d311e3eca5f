"""Owns the one exception of the package, and what it is made of."""

import httpx
from pydantic import BaseModel, TypeAdapter, ValidationError

from retrieval_client.answers import FieldError, Problem


class RerankProblem(BaseModel):
    """Why the re-ranker refused a request, as clients of Cohere and Jina read it. `id` is the request's."""

    id: str | None
    detail: str


_REFUSAL: TypeAdapter[Problem | RerankProblem] = TypeAdapter(Problem | RerankProblem)


class RetrievalError(Exception):
    """A call without a usable answer. Its text says what to do.

    `kind`: the problem's own (`unknown-collection`, `overloaded`, …), or `timeout`, `unreachable`, `bad-answer`,
    `incomplete`, `documents-refused`; of a re-ranker or a proxy `http-<status>`. `status`: of HTTP; 0 where nothing
    came.
    """

    def __init__(
        self,
        kind: str,
        detail: str,
        status: int = 0,
        *,
        errors: tuple[FieldError, ...] = (),
        request_id: str | None = None,
        retry_after_s: float = 0.0,
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.status = status
        self.errors = errors
        self.request_id = request_id
        self.retry_after_s = retry_after_s


def refusal(response: httpx.Response) -> RetrievalError:
    """Returns the error of an answer that is none."""
    wait = response.headers.get("retry-after", "")
    retry_after_s = float(wait) if wait.isascii() and wait.isdigit() else 0.0
    status = response.status_code
    try:
        problem = _REFUSAL.validate_json(response.content)
    except ValidationError:  # of a proxy
        problem = RerankProblem(id=None, detail=f"HTTP {status} from {response.url}, not by a gateway or a re-ranker")
    if isinstance(problem, RerankProblem):
        return RetrievalError(
            f"http-{status}", problem.detail, status, request_id=problem.id, retry_after_s=retry_after_s
        )
    return RetrievalError(
        problem.type.removeprefix("urn:problem:"),
        "; ".join([problem.detail, *(f"{fault.field}: {fault.message}" for fault in problem.errors)]),
        status,
        errors=problem.errors,
        request_id=problem.request_id,
        retry_after_s=retry_after_s,
    )


def no_answer(error: httpx.TransportError) -> RetrievalError:
    """Returns the error of a request that nobody answered."""
    kind = "timeout" if isinstance(error, httpx.ReadTimeout) else "unreachable"
    return RetrievalError(kind, f"{error.request.method} {error.request.url}: {error or type(error).__name__}")
