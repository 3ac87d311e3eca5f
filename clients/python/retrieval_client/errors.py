"""Owns the one exception of the package, and what it is made of."""

import httpx
from pydantic import ValidationError

from retrieval_client.answers import FieldError, Problem


class RetrievalError(Exception):
    """A call without a usable answer. Its text says what to do.

    `kind`: the problem's own (`unknown-collection`, `overloaded`, …), or `timeout`, `unreachable`, `bad-answer`,
    `incomplete`, `documents-refused`. `status`: of HTTP; 0 where nothing came.
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
    try:
        problem = Problem.model_validate_json(response.content)
    except ValidationError:  # of a proxy
        status = response.status_code
        return RetrievalError(
            f"http-{status}",
            f"HTTP {status} from {response.url}, not by a gateway",
            status,
            retry_after_s=retry_after_s,
        )
    return RetrievalError(
        problem.type.removeprefix("urn:problem:"),
        "; ".join([problem.detail, *(f"{fault.field}: {fault.message}" for fault in problem.errors)]),
        response.status_code,
        errors=problem.errors,
        request_id=problem.request_id,
        retry_after_s=retry_after_s,
    )


def no_answer(error: httpx.TransportError) -> RetrievalError:
    """Returns the error of a request that nobody answered."""
    kind = "timeout" if isinstance(error, httpx.ReadTimeout) else "unreachable"
    return RetrievalError(kind, f"{error.request.method} {error.request.url}: {error or type(error).__name__}")
