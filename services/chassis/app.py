"""Builds the ASGI app of a service: its routes, the probes, and the path of requests around them."""

import copy
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, nullcontext
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI
from pydantic import BaseModel
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from services.chassis.admission.lanes import lanes_of
from services.chassis.admission.limits import Limiter
from services.chassis.instruments import Instruments
from services.chassis.openapi_document import openapi_document
from services.chassis.probes import Lifecycle, Readiness, probe_router
from services.chassis.request_path import RequestPath
from services.chassis.requests import rendering
from services.chassis.requests.body import Bodies
from services.chassis.requests.callers import open_caller_check
from services.chassis.requests.handling import HandlingTable, Lane, matched_route
from services.chassis.requests.json_route import JsonRoute
from services.chassis.requests.telemetry import headers_of
from services.chassis.settings.configuration import ConfigurationError
from services.chassis.settings.service_settings import ServiceSettings
from services.contracts.problem import Problem

if TYPE_CHECKING:
    from services.chassis.requests.tracing import Tracing

Opened = AbstractAsyncContextManager[tuple[Sequence[APIRouter], Readiness]]


class ServiceApp(FastAPI):
    """An app that answers HEAD wherever it answers GET, without listing it in the OpenAPI document."""

    def add_routes(self, routes: Sequence[BaseRoute]) -> None:
        """Adds routes as they are: `include_router` would build the fields and schemas of every route a second time."""
        for route in routes:
            if isinstance(route, Route) and "GET" in (route.methods or ()):
                route.methods = {*(route.methods or ()), "HEAD"}
        self.router.routes.extend(routes)
        self.openapi_schema = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a request, without what FastAPI does around it: no app of ours is mounted, or traced by it."""
        scope["app"] = self
        assert self.middleware_stack is not None
        await self.middleware_stack(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        """Returns the OpenAPI document."""
        if self.openapi_schema is None:
            shown = [_without_head(route) for route in self.routes]
            self.openapi_schema = openapi_document(self.title, shown, keyed=self.state.callers.ring is not None)
        return self.openapi_schema


def _tracing(service: str, settings: ServiceSettings) -> "Tracing | None":
    if settings.trace_endpoint is None:
        return None
    try:
        from services.chassis.requests.tracing import Tracing, otlp_exporter
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"STACK_TRACE_ENDPOINT is set, and {error.name} is not installed: install the extra `trace` of "
            "pyproject.toml, or build the image with `--build-arg TRACE=1`."
        ) from error
    return Tracing(service, otlp_exporter(settings.trace_endpoint), settings.trace_sampled)


def _without_head(route: BaseRoute) -> BaseRoute:
    shown = copy.copy(route)
    if isinstance(shown, Route):
        shown.methods = set(shown.methods or ()) - {"HEAD"}
    return shown


def router(error: type[BaseModel] = Problem) -> APIRouter:
    """Returns a router that parses bodies with JsonRoute. Every route of every service is declared on one.

    `error` is the model of its error bodies: another one than Problem for paths that have a wording in create_app.
    """
    return APIRouter(route_class=JsonRoute, responses={"4XX": {"model": error}, "5XX": {"model": error}})


def create_app(
    service: str,
    settings: ServiceSettings,
    instruments: Instruments,
    opened: Callable[[], Opened],
    wordings: rendering.Wordings = MappingProxyType({}),
    cors_origins: Sequence[str] = (),
    own_lane: Limiter | None = None,
    page_wording: rendering.Wording | None = None,
) -> FastAPI:
    """Builds an app around `opened`, which opens engines and clients when the process starts and closes them later.

    `opened` yields the service's routers and its readiness checks. `wordings` are, by path, the error bodies that a
    vendor's clients expect. Only pages of `cors_origins` may call from a browser. Routes of the lane `own` take slots
    of `own_lane`. `page_wording` renders errors of pages, and of unmatched paths for browsers (Accept: text/html).
    Tests without a server enter `app.router.lifespan_context(app)` first.

    Raises ConfigurationError if the keys that the settings name cannot be used, or nothing is there to trace with.
    """
    lifecycle = Lifecycle()
    measured = instruments if settings.metrics_port is None else None
    handling = HandlingTable()
    callers = open_caller_check(settings, handling, instruments)
    tracing = _tracing(service, settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with nullcontext() if tracing is None else aclosing(tracing), opened() as (routers, readiness):
            # Probes need no key: where other routes need one, probes hide names and paths.
            probes = probe_router(service, lifecycle, readiness, measured, detailed=callers.ring is None)
            for own in (probes, *routers):
                app.add_routes(own.routes)
                handling.add(own.routes)
            yield

    # A redirect to a path without its slash would lead to the host in the caller's own header.
    app = ServiceApp(title=service, lifespan=lifespan, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.callers = callers
    app.state.lifecycle = lifecycle
    app.state.instruments = instruments
    lanes = app.state.lanes = lanes_of(settings, instruments)
    refusing: dict[Lane, Limiter] = {"work": lanes["work"]}
    if own_lane is not None:
        refusing["own"] = own_lane

    def wording_of(scope: Scope) -> rendering.Wording | None:
        if page_wording is not None and (
            handling.of_request(scope).page
            # An unmatched path in a browser: by reloading the answer of a form, for example.
            or (matched_route(scope) is None and "text/html" in headers_of(scope).get("accept", ""))
        ):
            return page_wording
        return wordings.get(scope["path"])

    bodies = Bodies(settings.max_body_bytes, instruments)
    trace = None if tracing is None else tracing.request
    path = RequestPath(app.router, callers, lanes, refusing, bodies, wording_of, instruments, cors_origins, trace)
    app.middleware_stack = path
    app.state.early_refusal = path.early_refusal
    return app
