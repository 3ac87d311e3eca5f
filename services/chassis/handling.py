"""What a route declares about its handling: lane, default deadline, log line. Known before routing, by method and path.

The declaration stands at the route, in the service that owns it; this module finds it for a request.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from fastapi.routing import APIRoute
from starlette.routing import BaseRoute
from starlette.types import Scope

# Whose slots a request takes. `control`: short requests by which the gateway judges a service; no work may delay them.
# `write`: writes wait for one another while an index is finished, and would hold every slot that a search needs.
# `work`: everything else.
Lane = Literal["control", "write", "work"]
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])

_MARK = "__handling__"


@dataclass(frozen=True, slots=True)
class Handling:
    """How the chassis handles a route.

    `slow`: without a deadline header a request gets the longest there is, because the route encodes documents, builds
    indexes, or serves a vendor's clients, which know no such header and wait for minutes. Not `logged`: its successes
    are counted only, because a gateway calls it every second.
    """

    lane: Lane = "work"
    slow: bool = False
    logged: bool = True


USUAL = Handling()


def handled(lane: Lane = "work", *, slow: bool = False, logged: bool = True) -> Callable[[Endpoint], Endpoint]:
    """Declares the handling of an endpoint; stands below the decorator of its route. One without has the usual one."""

    def marked(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _MARK, Handling(lane, slow, logged))
        return endpoint

    return marked


class HandlingTable:
    """The declarations of a service's routes."""

    def __init__(self) -> None:
        self._declared: dict[str, list[tuple[re.Pattern[str], Handling]]] = {}

    def add(self, routes: Iterable[BaseRoute]) -> None:
        """Adds the routes that declare something."""
        for route in routes:
            declared = getattr(route.endpoint, _MARK, None) if isinstance(route, APIRoute) else None
            if isinstance(route, APIRoute) and declared is not None:
                for method in route.methods or ():
                    self._declared.setdefault(method, []).append((route.path_regex, declared))

    def of(self, method: str, path: str) -> Handling:
        """Returns the handling of a request, the usual one where no route declares another."""
        for pattern, declared in self._declared.get(method, ()):
            if pattern.match(path):
                return declared
        return USUAL


def handling_of(scope: Scope) -> Handling:
    """Returns the handling of the request being served. Looked up once."""
    found: Handling | None = scope.get(_MARK)
    if found is None:
        table: HandlingTable = scope["app"].state.handling
        found = scope[_MARK] = table.of(scope["method"], scope["path"])
    return found
