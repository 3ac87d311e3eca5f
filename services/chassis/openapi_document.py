"""Completes FastAPI's OpenAPI document by what all routes share: names, keys, headers and problems."""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from services.chassis import errors
from services.chassis.deadlines import MOST_MS
from services.chassis.requests.handling import Handling, declared_handling
from services.contracts.problem import Problem
from services.contracts.version import VERSION

Part = dict[str, Any]

BEARER: Part = {
    "type": "http",
    "scheme": "bearer",
    "description": "A key that `gateway keys new` has made; for internal routes the STACK_TOKEN.",
}
REQUEST_ID: Part = {
    "name": "X-Request-Id",
    "in": "header",
    "description": "Names the request in logs, in the answer's X-Request-Id and in its problem; made up without it.",
    "schema": {"type": "string"},
}
CACHE_CONTROL: Part = {
    "name": "Cache-Control",
    "in": "header",
    "description": "`no-store`: nothing of the answer may come from a cache.",
    "schema": {"type": "string"},
}
EMPTY: Part = {"content": {"application/json": {"schema": {"type": "object", "maxProperties": 0, "examples": [{}]}}}}
# The ends of the paths that a cache may answer, here or in a service behind.
CACHED = ("/search", "/score", "/rerank", "/embeddings", "/embed")
RETRY_AFTER: Part = {"description": "Seconds before the next attempt.", "schema": {"type": "integer", "minimum": 0}}
# Problems of the path that every request takes, those with a key, and those of a path that names something.
ANYWHERE = (400, 408, 413, 414, 415, 421, 422, 429, 431, 500, 502, 503, 504)
WITH_A_KEY = (401, 403)
OF_SOMETHING_NAMED = (404, 409, 507)


def openapi_document(title: str, routes: Sequence[BaseRoute], *, keyed: bool) -> Part:
    """Returns the document of these routes. `keyed`: callers need a key; else they may leave it out."""
    # One schema for a model that is sent and returned: generators would make one class of both by their common title.
    document = get_openapi(title=title, version=VERSION, routes=routes, separate_input_output_schemas=False)
    for route in routes:
        if isinstance(route, APIRoute) and route.include_in_schema:
            for method in route.methods or ():
                operation = document["paths"][route.path_format][method.lower()]
                _complete(operation, route, keyed=keyed)
                if method == "POST":  # any page may send one without a type (CORS): a POST of nothing is a 415
                    operation.setdefault("requestBody", copy.deepcopy(EMPTY))["required"] = True
    parts = document.setdefault("components", {})
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    parts.setdefault("schemas", {}).update({**problem.pop("$defs"), "Problem": problem})
    parts["responses"] = {_name(status): _response(status, kinds) for status, kinds in _kinds().items()}
    parts["securitySchemes"] = {"key": BEARER}
    return document


def _complete(operation: Part, route: APIRoute, *, keyed: bool) -> None:
    handling = declared_handling(route)
    operation["operationId"] = route.name
    if handling.scope != "open":
        operation["security"] = [{"key": []}] if keyed else [{"key": []}, {}]
        needed = "Internal: takes no key." if handling.scope == "internal" else f"Needs the scope {handling.scope}."
        operation["description"] = f"{operation.get('description', '')} {needed}".strip()
        operation["parameters"] = [*operation.get("parameters", ()), *_headers(route, handling)]
    responses = operation["responses"]
    if route.responses.get("4XX", {}).get("model", Problem) is Problem:  # else a vendor's, under a status of its own
        responses.pop("4XX", None)
        responses.pop("5XX", None)
        for status in _statuses(route, handling):
            responses.setdefault(str(status), {"$ref": f"#/components/responses/{_name(status)}"})


def _headers(route: APIRoute, handling: Handling) -> Iterator[Part]:
    yield {
        "name": "X-Deadline-Ms",
        "in": "header",
        "description": f"Milliseconds that remain; {handling.default_ms:,} without it.",
        "schema": {"type": "integer", "minimum": 1, "maximum": MOST_MS},
    }
    yield REQUEST_ID
    if route.path.endswith(CACHED):
        yield CACHE_CONTROL


def _statuses(route: APIRoute, handling: Handling) -> list[int]:
    with_a_key = WITH_A_KEY if handling.scope != "open" else ()
    return sorted((*ANYWHERE, *with_a_key, *(OF_SOMETHING_NAMED if route.param_convertors else ())))


def _kinds() -> dict[int, dict[str, str]]:
    """Returns by status the kinds of problems that have it, with their titles."""
    kinds: dict[int, dict[str, str]] = {}
    for error in vars(errors).values():
        if isinstance(error, type) and issubclass(error, errors.ProblemError):
            kinds.setdefault(error.status, {})[error.kind] = error.title
    return {status: kinds[status] for status in sorted((*ANYWHERE, *WITH_A_KEY, *OF_SOMETHING_NAMED))}


def _name(status: int) -> str:
    return f"Problem{status}"


def _response(status: int, kinds: dict[str, str]) -> Part:
    return {
        "description": "; ".join(f"{title} (`urn:problem:{kind}`)" for kind, title in kinds.items()),
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
        **({"headers": {"Retry-After": RETRY_AFTER}} if status in (429, 503) else {}),
    }
