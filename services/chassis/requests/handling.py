"""Defines the handling that a route declares: lane, default deadline, log line, kind of body, scope of callers.

A decorator at the route declares it. This module finds it by a request's method and path, which are matched once.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from fastapi.routing import APIRoute
from starlette.routing import BaseRoute
from starlette.types import Scope

from services.chassis.deadlines import DEFAULT_MS, MOST_MS
from services.keys.key import Scope as CallerScope

# The lane whose slots a request takes. `control`: short requests by which the gateway checks a service; no other work
# may delay them. `write`: writes wait for each other while an index is finished, and would take every slot that
# searches need. `bulk`: many texts for a patient client. `own`: the route takes a slot itself. `work`: everything else.
Lane = Literal["control", "write", "bulk", "work", "own"]
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])

_MARK, _MATCHED = "__handling__", "__matched_route__"


@dataclass(frozen=True, slots=True)
class Handling:
    """The handling of a route.

    `default_ms`: the deadline of a request without the header, in milliseconds. Without `logged`, successes are only
    counted, because a gateway calls the route every second. `form`: the body is that of an HTML form
    (application/x-www-form-urlencoded), and the route checks where it comes from. `scope`: what a caller needs, where
    callers need a key; every route declares it. `page`: a browser asks for it, and its user for a key (HTTP Basic).
    """

    lane: Lane = "work"
    default_ms: int = DEFAULT_MS
    logged: bool = True
    form: bool = False
    scope: CallerScope | None = None
    page: bool = False


@dataclass(frozen=True, slots=True)
class MatchedRoute:
    """The route that answers a request, and the values of its path's parameters."""

    route: APIRoute
    parameters: Mapping[str, str]


# Unmatched paths have it too, so that unknown callers cannot find out which paths exist.
DEFAULT_HANDLING = Handling(scope="search")


def handled(
    lane: Lane = "work",
    *,
    scope: CallerScope,
    slow: bool = False,
    default_ms: int = DEFAULT_MS,
    logged: bool = True,
    form: bool = False,
    page: bool = False,
) -> Callable[[Endpoint], Endpoint]:
    """Declares the handling of an endpoint, below the decorator of its route. Every route has it.

    `slow`: the default deadline is the longest one, because the route encodes documents, builds indexes, or serves a
    vendor's clients, which do not send the header and wait for minutes.
    """

    def marked(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _MARK, Handling(lane, MOST_MS if slow else default_ms, logged, form, scope, page))
        return endpoint

    return marked


class HandlingTable:
    """The declared handlings of a service's routes."""

    def __init__(self) -> None:
        self._declared: dict[str, list[tuple[re.Pattern[str], APIRoute, Handling]]] = {}

    def add(self, routes: Iterable[BaseRoute]) -> None:
        """Adds routes. Raises TypeError for one that does not declare who may call it."""
        for route in routes:
            if not isinstance(route, APIRoute):
                continue
            declared = declared_handling(route)
            for method in route.methods or ():
                self._declared.setdefault(method, []).append((route.path_regex, route, declared))

    def of_request(self, scope: Scope) -> Handling:
        """Returns the handling of a request: that of its route, DEFAULT_HANDLING where there is none.

        Matches a request once, and keeps what is found in its scope.
        """
        handling: Handling | None = scope.get(_MARK)
        if handling is None:
            handling, scope[_MATCHED] = self._match(scope["method"], scope["path"])
            scope[_MARK] = handling
        return handling

    def _match(self, method: str, path: str) -> tuple[Handling, MatchedRoute | None]:
        for pattern, route, declared in self._declared.get("GET" if method == "HEAD" else method, ()):
            if match := pattern.match(path):
                return declared, MatchedRoute(route, match.groupdict())
        return DEFAULT_HANDLING, None


def declared_handling(route: APIRoute) -> Handling:
    """Returns what a route declares. Raises TypeError if it declares nothing."""
    declared: Handling | None = getattr(route.endpoint, _MARK, None)
    if declared is None:
        raise TypeError(f"{route.path}: declare who may call it by @handled(scope=...) below the route")
    return declared


def matched_route(scope: Scope) -> MatchedRoute | None:
    """Returns the route of a request whose handling was looked up, refused ones included; None if none matches."""
    route: MatchedRoute | None = scope.get(_MATCHED)
    return route
