"""Owns the one exception of the package, and what it is made of."""

import httpx
from pydantic import BaseModel, TypeAdapter, ValidationError

from retrieval_client.answers import FieldError, Problem

# That of pyproject.toml: who runs the sources without installing them has no metadata.
VERSION = "0.1.0"


class RerankProblem(BaseModel):
    """Why the re-ranker refused a request, as clients of Cohere and Jina read it. `id` is the request's."""

    id: str | None
    detail: str


_REFUSAL: TypeAdapter[Problem | RerankProblem] = TypeAdapter(Problem | RerankProblem)


class RetrievalError(Exception):
    """A call without a usable answer. Its text says what to do.

    `kind`: the problem's own (`unknown-collection`, `overloaded`, …), or `timeout`, `unreachable`, `bad-answer`,
    `incomplete`, `documents-refused`, `document-too-large`, `not-json`, `another-generation`, `another-event-loop`; of
    a re-ranker or a proxy `http-<status>`. `status`: of HTTP; 0 where nothing came.
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


def _unknown_to(response: httpx.Response, problem: Problem) -> str | None:
    """Returns what of a request a gateway of another release does not know: its route, or fields of its own."""
    if problem.status == 405 or problem.detail.startswith("There is no such route here"):
        return f"{response.request.method} {response.request.url.path}"
    faults = [(fault.field.removeprefix("query."), fault.message) for fault in problem.errors]
    # Deeper fields are of a caller's own pipeline or filter, and their messages list those that there are.
    unknown = [field for field, message in faults if "no such" in message and "." not in field]
    return ", ".join(unknown) or None


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
    # The problem's detail has the first faults already.
    more = (f"{fault.field}: {fault.message}" for fault in problem.errors if fault.message not in problem.detail)
    detail = "; ".join([problem.detail, *more])
    if (unknown := _unknown_to(response, problem)) is not None:
        theirs = response.headers.get("x-stack-version", "not told")
        sent = f"{unknown}, which this client (version {VERSION}) sends"
        detail = f"The gateway (version {theirs}) does not know {sent}: upgrade the gateway, or do without."
    return RetrievalError(
        problem.type.removeprefix("urn:problem:"),
        detail,
        status,
        errors=problem.errors,
        request_id=problem.request_id,
        retry_after_s=retry_after_s,
    )


def no_answer(error: httpx.RequestError, seconds: float) -> RetrievalError:
    """Returns the error of a request that has no answer after so many seconds, or none that can be unpacked."""
    late = isinstance(error, httpx.TimeoutException) and not isinstance(error, httpx.ConnectTimeout)
    kind = "bad-answer" if isinstance(error, httpx.DecodingError) else "timeout" if late else "unreachable"
    reason = str(error) or type(error).__name__
    return RetrievalError(kind, f"{error.request.method} {error.request.url}: {reason} after {seconds:.1f} s")
