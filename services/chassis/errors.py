"""Problems (RFC 9457): the errors that our processes raise, and the one place that renders them."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from services.chassis.telemetry import request_id
from services.contracts.problem import FieldError, Problem
from services.contracts.validation_messages import validation_message

logger = logging.getLogger(__name__)

# How a vendor's clients want to be told of a problem: its status and its body. By path, because much is refused
# (too large, too many, too late) before any route is known.
Wording = Callable[[Problem], tuple[int, BaseModel]]
Wordings = Mapping[str, Wording]

# What the router refuses by itself, without a word on what to do.
ROUTING = {
    404: ("not-found", "Not found", "There is no such route here; GET /openapi.json lists all of them."),
    405: (
        "method-not-allowed",
        "Method not allowed",
        "This route does not take that method; GET /openapi.json lists those that it takes.",
    ),
}


class ProblemError(HTTPException):
    """An error with its own status and stable kind. `detail` is one sentence that says what the caller can do."""

    status: ClassVar[int] = 500
    kind: ClassVar[str] = "internal"
    title: ClassVar[str] = "Internal error"

    def __init__(
        self,
        detail: str,
        *,
        errors: tuple[FieldError, ...] = (),
        retry_after_s: int | None = None,
        closes: bool = False,
    ) -> None:
        headers = {} if retry_after_s is None else {"retry-after": str(retry_after_s)}
        if closes:
            headers["connection"] = "close"
        super().__init__(self.status, detail, headers)
        self.errors = errors


class Malformed(ProblemError):
    status, kind, title = 400, "malformed", "Malformed request"


class NotFound(ProblemError):
    status, kind, title = 404, "not-found", "Not found"


class UnknownCollection(NotFound):
    kind, title = "unknown-collection", "Unknown collection"


class UnknownPipeline(NotFound):
    kind, title = "unknown-pipeline", "Unknown pipeline"


class UnknownModel(NotFound):
    kind, title = "unknown-model", "Unknown model"


class Conflict(ProblemError):
    status, kind, title = 409, "conflict", "Conflict with the present state"


class StampMismatch(Conflict):
    """A collection was made by something else than what would now open it (another model, preset, schema)."""

    kind, title = "stamp-mismatch", "Made by something else"


class NotHeld(Conflict):
    """One of the services lacks a collection that the others hold: it must be loaded again, waiting does not help."""

    kind, title = "not-held", "Not held by every service"


class BuildNeeded(Conflict):
    """Only an unpublished generation is there, and the request does not say that it belongs to its build."""

    kind, title = "build-token-needed", "A build token is needed"


class BuildConflict(Conflict):
    """A generation belongs to another build than the one that the request names."""

    kind, title = "build-conflict", "Another build"


class Superseded(Conflict):
    """A newer generation was published while this one was being built."""

    kind, title = "superseded", "A newer generation is live"


class DamagedCollection(Conflict):
    """A generation is there and cannot be opened: waiting does not help, removing or restoring it does."""

    kind, title = "damaged-collection", "Damaged collection"


class BodyTooLarge(ProblemError):
    status, kind, title = 413, "body-too-large", "Body too large"


class RequestTimeout(ProblemError):
    status, kind, title = 408, "request-timeout", "The request took too long to arrive"


class UrlTooLong(ProblemError):
    status, kind, title = 414, "url-too-long", "URL too long"


class HeadTooLarge(ProblemError):
    status, kind, title = 431, "headers-too-large", "Headers too large"


class AnswerTooLarge(ProblemError):
    """What was asked for is there, and too much for one answer."""

    status, kind, title = 422, "answer-too-large", "Answer too large"


class UnsupportedMedia(ProblemError):
    status, kind, title = 415, "unsupported-media-type", "Unsupported media type"


class BadInput(ProblemError):
    status, kind, title = 422, "bad-input", "Bad input"


class Overloaded(ProblemError):
    """Full now, not slow later."""

    status, kind, title = 429, "overloaded", "Overloaded"

    def __init__(self, detail: str, *, retry_after_s: int = 1) -> None:
        super().__init__(detail, retry_after_s=retry_after_s)


class ClientGone(ProblemError):
    """The caller hung up; nobody reads this answer, the logs and metrics do."""

    status, kind, title = 499, "client-gone", "Client closed the request"


class UpstreamFailed(ProblemError):
    """What we depend on answered, but with an error or nonsense."""

    status, kind, title = 502, "upstream-failed", "Upstream failed"


class Unavailable(ProblemError):
    """What we depend on cannot be reached, or we are not ready."""

    status, kind, title = 503, "unavailable", "Unavailable"


class DeadlineExceeded(ProblemError):
    status, kind, title = 504, "deadline-exceeded", "Deadline exceeded"


class InsufficientStorage(ProblemError):
    """The disk is too full to write; what is there can be read."""

    status, kind, title = 507, "insufficient-storage", "Insufficient storage"


def render(error: Exception, wording: Wording | None = None, asked: object = None) -> Response:
    """The answer for any error, as problem+json or in a vendor's `wording`. `asked` is the model of a body at fault."""
    problem, headers = _described(error, asked)
    if wording is None:
        return Response(problem.model_dump_json(), problem.status, headers, media_type="application/problem+json")
    status, body = wording(problem)
    return Response(body.model_dump_json(), status, headers, media_type="application/json")


def _described(error: Exception, asked: object) -> tuple[Problem, Mapping[str, str]]:
    """Any error as a problem, and the headers it comes with; what we did not foresee is a 500 without its inside."""
    headers: dict[str, str] = {}
    match error:
        case ProblemError():
            kind, title, status, detail, errors = error.kind, error.title, error.status, error.detail, error.errors
            headers = dict(error.headers or {})
        case RequestValidationError():
            kind, title, status = BadInput.kind, BadInput.title, 422
            errors = _field_errors(error, asked)
            detail = "; ".join(f"{item.field}: {item.message}" for item in errors[:3])
            if any(item["type"] == "json_invalid" for item in error.errors()):
                kind, title, status = Malformed.kind, Malformed.title, 400
        case HTTPException():
            kind, title, detail = ROUTING.get(error.status_code, ("http", "HTTP error", str(error.detail)))
            status, errors = error.status_code, ()
            headers = dict(error.headers or {})
        case _:
            logger.error("unforeseen error", exc_info=error)
            kind, title, status, errors = ProblemError.kind, ProblemError.title, 500, ()
            detail = "An error that we did not foresee; the logs have it under this request_id."
    problem = Problem(
        type=f"urn:problem:{kind}",
        title=title,
        status=status,
        detail=detail.encode(errors="replace").decode(),  # it may quote what no UTF-8 can carry
        request_id=request_id(),
        errors=errors,
    )
    return problem, headers


def _field_errors(error: RequestValidationError, asked: object) -> tuple[FieldError, ...]:
    # Only location and message: the input may be huge, secret or not representable in JSON (NaN, surrogates).
    return tuple(
        FieldError(
            field=_place(item["loc"]).encode(errors="replace").decode(),
            message=validation_message({**item, "loc": item["loc"][1:]}, asked).encode(errors="replace").decode(),
        )
        for item in error.errors()[:32]
    )


def _place(found: Sequence[str | int]) -> str:
    """Where a fault was found, with dots. FastAPI puts the word `body` first; a field may have that name as well."""
    return ".".join(str(part) for part in (found[1:] if found[:1] == ("body",) else found)) or "body"


def install(app: FastAPI, wordings: Wordings) -> None:
    """Renders every error of the routes: as a problem, or in the wording of its path."""

    async def handler(request: Request, error: Exception) -> Response:
        body = getattr(request.scope.get("route"), "body_field", None)
        asked = None if body is None else body.field_info.annotation
        return render(error, wordings.get(request.scope["path"]), asked)

    app.add_exception_handler(HTTPException, handler)
    app.add_exception_handler(RequestValidationError, handler)
