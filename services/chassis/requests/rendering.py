"""Renders errors as problem+json (RFC 9457), as a vendor's error body or as a page. errors.py defines them."""

import logging
from collections.abc import Callable, Mapping, Sequence

from fastapi import Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.types import Scope

from services.chassis.errors import BadInput, Forbidden, Malformed, ProblemError, Unauthenticated
from services.chassis.requests.telemetry import request_id
from services.contracts.problem import FieldError, Problem
from services.contracts.validation_messages import validation_message

logger = logging.getLogger(__name__)

# Maps a problem to the status and body that a vendor's clients expect, or to a page for a browser. Wordings are looked
# up by path, because many requests are refused (too large, too many, too late) before routing.
Wording = Callable[[Problem], tuple[int, BaseModel] | Response]
Wordings = Mapping[str, Wording]
WordingOf = Callable[[Scope], Wording | None]

# Kind, title and detail for the router's own errors, whose text does not state what the caller can do.
ROUTING = {
    404: ("not-found", "Not found", "There is no such route here; GET /openapi.json lists all of them."),
    405: (
        "method-not-allowed",
        "Method not allowed",
        "This route does not take that method; GET /openapi.json lists those that it takes.",
    ),
}

# Makes a browser ask its user for a key. Some show the realm in their dialog.
BASIC = 'Basic realm="any user name, an API key as the password", charset="UTF-8"'


def render(error: Exception, wording: Wording | None = None, model: object = None) -> Response:
    """Renders any error as problem+json or in the `wording` of its path. `model` is that of the request's body."""
    problem, headers = _describe(error, model)
    if wording is None:
        return Response(problem.model_dump_json(), problem.status, headers, media_type="application/problem+json")
    worded = wording(problem)
    if isinstance(worded, Response):
        worded.headers.update(headers)
        return worded
    status, body = worded
    return Response(body.model_dump_json(), status, headers, media_type="application/json")


def _describe(error: Exception, model: object) -> tuple[Problem, Mapping[str, str]]:
    """Describes an error as a problem with its headers. An unexpected one is a 500 that hides its cause."""
    headers: dict[str, str] = {}
    match error:
        case ProblemError():
            kind, title, status, detail, errors = error.kind, error.title, error.status, error.detail, error.errors
            headers = _headers_of(error)
        case RequestValidationError():
            kind, title, status = BadInput.kind, BadInput.title, 422
            errors = _field_errors(error, model)
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
            detail = "An unexpected error; the logs have it under this request_id."
    problem = Problem(
        type=f"urn:problem:{kind}",
        title=title,
        status=status,
        detail=detail.encode(errors="replace").decode(),  # it may quote lone surrogates, which UTF-8 cannot encode
        request_id=request_id(),
        errors=errors,
    )
    return problem, headers


def _headers_of(error: ProblemError) -> dict[str, str]:
    headers = {} if error.retry_after_s is None else {"retry-after": str(error.retry_after_s)}
    if error.closes:
        headers["connection"] = "close"
    if isinstance(error, Unauthenticated):
        challenge = "Bearer" + (' error="invalid_token"' if error.wrong else "")
        headers["www-authenticate"] = BASIC if error.challenges_browser else challenge
    elif isinstance(error, Forbidden):
        headers["www-authenticate"] = 'Bearer error="insufficient_scope"'
    return headers


def _field_errors(error: RequestValidationError, model: object) -> tuple[FieldError, ...]:
    # Only location and message: the input may be huge, secret or not representable in JSON (NaN, surrogates).
    return tuple(
        FieldError(
            field=_location(item["loc"]).encode(errors="replace").decode(),
            message=validation_message({**item, "loc": item["loc"][1:]}, model).encode(errors="replace").decode(),
        )
        for item in error.errors()[:32]
    )


def _location(place: Sequence[str | int]) -> str:
    """Joins a location with dots, without the `body` that FastAPI puts first (a field may have that name too)."""
    return ".".join(str(part) for part in (place[1:] if place[:1] == ("body",) else place)) or "body"


def asked_model(scope: Scope) -> object:
    """Returns the model of the body that the route of a request takes; None where it takes none, or there is none."""
    body = getattr(scope.get("route"), "body_field", None)
    return None if body is None else body.field_info.annotation
