"""Writes one line for each call that changes something, by a caller that is known: who, what, and how it ended."""

import logging
import re

from starlette.types import Scope

from services.chassis.requests.callers import caller_of, collection_of
from services.chassis.requests.handling import Handling, matched_route

logger = logging.getLogger("audit")
logger.setLevel(logging.INFO)  # whatever else is logged

AUDITED = ("index", "admin")
_RUN = "audited_run"
# Only the parts of a path that can be names are written: callers choose the rest.
_COLLECTION_NAME = re.compile(r"[a-z0-9_-]{1,64}")
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}(/[a-z0-9_-]{1,64})?")


def note_run(scope: Scope, run: str) -> None:
    """Notes the run that a call has begun, for its line: the path does not name it."""
    scope[_RUN] = run


def write_audit(scope: Scope, handling: Handling, status: int) -> None:
    """Writes the line of a call whose route has one of the scopes AUDITED; `status` is that of its answer."""
    caller = caller_of(scope)
    if caller is None or handling.scope not in AUDITED:
        return
    route = matched_route(scope)
    logger.info(
        "call",
        extra={
            "key": caller.id,
            "method": scope["method"],
            "route": None if route is None else route.route.path,
            "collection": _name(_COLLECTION_NAME, collection_of(scope["path"])),
            "run": scope.get(_RUN) or _name(_RUN_NAME, None if route is None else route.parameters.get("run")),
            "session": _name(_RUN_NAME, None if route is None else route.parameters.get("session")),
            "outcome": status,
        },
    )


def _name(form: re.Pattern[str], text: str | None) -> str | None:
    return text if text is not None and form.fullmatch(text) else None
