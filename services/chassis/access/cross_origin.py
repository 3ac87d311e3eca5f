"""Owns which pages of other origins may call from a browser, and the headers that let them read the answers."""

from collections.abc import Sequence

from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp

from services.chassis.deadlines import DEADLINE_HEADER
from services.chassis.requests.caching import CACHED_HEADER
from services.chassis.requests.telemetry import REQUEST_ID_HEADER


class CrossOrigin(CORSMiddleware):
    """CORS for our methods and headers. Also adds its headers to an answer that is made before any middleware."""

    def __init__(self, app: ASGIApp, origins: Sequence[str]) -> None:
        super().__init__(
            app,
            allow_origins=origins,
            allow_methods=("GET", "HEAD", "POST", "PUT", "DELETE"),
            allow_headers=("authorization", "content-type", "cache-control", DEADLINE_HEADER, REQUEST_ID_HEADER),
            expose_headers=("retry-after", "server-timing", CACHED_HEADER, REQUEST_ID_HEADER),
        )

    def add_headers(self, response: Response, origin: str | None) -> None:
        """Adds to an answer what a page of this origin needs to read it, if it may."""
        if origin is None or not self.is_allowed_origin(origin):
            return
        response.headers.update(self.simple_headers)
        if not self.allow_all_origins:
            self.allow_explicit_origin(response.headers, origin)
