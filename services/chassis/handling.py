"""Owns what a route declares about its handling: lane, default deadline, log line, kind of body.

The declaration is a decorator at the route, in the service that owns the route. This module finds it for a request by
method and path, before routing.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from fastapi.routing import APIRoute
from starlette.routing import BaseRoute
from starlette.types import Scope

# The lane whose slots a request takes. `control`: short requests by which the gateway checks a service; no other work
# may delay them. `write`: writes wait for each other while an index is finished, and would take every slot that
# searches need. `bulk`: many texts for a client that waits for minutes. `own`: the route takes a slot itself once it
# knows what a request costs. `work`: everything else.
Lane = Literal["control", "write", "bulk", "work", "own"]
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])

_MARK = "__handling__"


@dataclass(frozen=True, slots=True)
class Handling:
    """The handling of a route.

    `slow`: a request without a deadline header gets the longest deadline, because the route encodes documents, builds
    indexes, or serves a vendor's clients, which do not send the header and wait for minutes. Without `logged`,
    successes are only counted, because a gateway calls the route every second. `form`: the body is that of an HTML form
    (application/x-www-form-urlencoded), and the route checks where it comes from.
    """

    lane: Lane = "work"
    slow: bool = False
    logged: bool = True
    form: bool = False


DEFAULT_HANDLING = Handling()


def handled(
    lane: Lane = "work", *, slow: bool = False, logged: bool = True, form: bool = False
) -> Callable[[Endpoint], Endpoint]:
    """Declares the handling of an endpoint, below the decorator of its route. The default is DEFAULT_HANDLING."""

    def marked(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _MARK, Handling(lane, slow, logged, form))
        return endpoint

    return marked


class HandlingTable:
    """The declared handlings of a service's routes."""

    def __init__(self) -> None:
        self._declared: dict[str, list[tuple[re.Pattern[str], Handling]]] = {}

    def add(self, routes: Iterable[BaseRoute]) -> None:
        """Adds the routes that declare a handling."""
        for route in routes:
            declared = getattr(route.endpoint, _MARK, None) if isinstance(route, APIRoute) else None
            if isinstance(route, APIRoute) and declared is not None:
                for method in route.methods or ():
                    self._declared.setdefault(method, []).append((route.path_regex, declared))

    def of(self, method: str, path: str) -> Handling:
        """Returns the handling of a request, DEFAULT_HANDLING unless its route declares another."""
        for pattern, declared in self._declared.get(method, ()):
            if pattern.match(path):
                return declared
        return DEFAULT_HANDLING


def handling_of(scope: Scope) -> Handling:
    """Returns the handling of the current request, and caches it in the scope."""
    found: Handling | None = scope.get(_MARK)
    if found is None:
        table: HandlingTable = scope["app"].state.handling
        found = scope[_MARK] = table.of(scope["method"], scope["path"])
    return found
