"""Serves a connection above the bound of connections: probes alone, so that monitoring still works."""

from starlette.types import ASGIApp, Receive, Scope, Send

from services.chassis.errors import Overloaded
from services.chassis.rendering import render
from services.chassis.telemetry import PROBES


def probes_only(app: ASGIApp) -> ASGIApp:
    """Returns an app that serves only probes, for a connection above the bound."""
    refusal = Overloaded("There are too many connections; keep fewer, and try again.", retry_after_s=1)

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in PROBES:
            await app(scope, receive, send)
            return
        response = render(refusal)
        response.headers["connection"] = "close"
        await response(scope, receive, send)

    return serve
