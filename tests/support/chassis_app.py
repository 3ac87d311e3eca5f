"""A small app on the chassis, for tests of connections."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI, Request, Response

from services.chassis.app import create_app, router
from services.chassis.instruments import Instruments
from services.chassis.probes import Readiness
from services.chassis.requests.handling import handled
from services.chassis.settings.service_settings import ServiceSettings
from services.contracts.health import Check
from services.contracts.query import SearchRequest


def small_app(settings: ServiceSettings | None = None) -> FastAPI:
    """Has /echo, /headers, and /large with 20 MB."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[tuple[Sequence[APIRouter], Readiness]]:
        routes = router()

        @routes.post("/echo")
        @handled(scope="search")
        async def echo(search: SearchRequest) -> SearchRequest:
            return search

        @routes.get("/headers")
        @handled(scope="search")
        async def headers(request: Request) -> dict[str, str]:
            return dict(request.headers)

        @routes.get("/large")
        @handled(scope="search")
        async def large() -> Response:
            return Response(b"a" * 20_000_000)

        async def readiness() -> tuple[Check, ...]:
            return (Check(name="engine", ok=True),)

        yield (routes,), readiness

    return create_app("small", settings or ServiceSettings(port=0), Instruments(), opened)
