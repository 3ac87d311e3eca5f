"""Prepares a route once in a process, however many apps of the same kind the tests build.

FastAPI analyses the endpoint of a route and compiles a validator for each of its parameters and its answer: 2 to 3 ms
of CPU a route. At its first request it parses the endpoint's source for the line: 1 ms. A process builds its routes
once; the tests build hundreds of apps.
"""

from collections.abc import Callable
from dataclasses import replace
from types import FunctionType
from typing import Any

from fastapi import routing
from fastapi.datastructures import DefaultPlaceholder
from fastapi.exceptions import EndpointContext
from fastapi.routing import APIRoute, request_response

_analyse = APIRoute.__init__
_prepared: dict[tuple[object, ...], dict[str, Any]] = {}


def prepare_routes_once() -> None:
    """Makes APIRoute take what the analysis of the same endpoint has found, from now on and in the whole process."""
    APIRoute.__init__ = _prepare  # type: ignore[method-assign, assignment]
    assert callable(routing._extract_endpoint_context)
    routing._extract_endpoint_context = _context


def _context(func: Any) -> EndpointContext:
    code = func.__code__
    return EndpointContext(file=code.co_filename, line=code.co_firstlineno, function=func.__name__)


def _prepare(route: APIRoute, path: str, endpoint: Callable[..., Any], **given: Any) -> None:
    key = _same(path, endpoint, given)
    if key is None or (found := _prepared.get(key)) is None:
        _analyse(route, path, endpoint, **given)
        if key is not None:
            # Without its endpoint, which holds the engine of one app.
            kept = {name: value for name, value in vars(route).items() if name not in ("app", "endpoint")}
            _prepared[key] = kept | {"dependant": replace(route.dependant, call=None)}
        return
    vars(route).update(found)
    route.endpoint = endpoint
    route.dependant = replace(found["dependant"], call=endpoint)
    route.app = request_response(route.get_route_handler())


def _same(path: str, endpoint: Callable[..., Any], given: dict[str, Any]) -> tuple[object, ...] | None:
    """Returns what two routes have in common that FastAPI analyses alike, None where that cannot be compared."""
    if not isinstance(endpoint, FunctionType) or given.get("max_body_size") is not None:
        return None
    chosen = {name: value for name, value in given.items() if not isinstance(value, DefaultPlaceholder)}
    shown = repr((endpoint.__annotations__, endpoint.__defaults__, endpoint.__kwdefaults__, chosen))
    # A function of one app, or a class of one test.
    return None if " at 0x" in shown or "<locals>" in shown else (path, endpoint.__code__, shown)
