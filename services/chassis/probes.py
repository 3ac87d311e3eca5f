"""Owns the routes for monitoring a process: liveness, readiness and metrics."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fastapi import APIRouter, Response

from services.chassis.handling import handled
from services.chassis.instruments import Instruments
from services.contracts.health import Check, Health

EXPOSITION = "text/plain; version=0.0.4; charset=utf-8"
Readiness = Callable[[], Awaitable[tuple[Check, ...]]]


@dataclass(slots=True)
class Lifecycle:
    """Whether the process is draining. Set on SIGTERM: /readyz fails first, so that callers leave before it closes."""

    draining: bool = False


def probe_router(
    service: str, lifecycle: Lifecycle, readiness: Readiness, instruments: Instruments | None
) -> APIRouter:
    """Returns the probes' routes. /livez answers while the event loop runs; /readyz runs the service's own checks.

    `instruments` None: /metrics is elsewhere.
    """
    router = APIRouter(tags=["probes"])

    @router.get("/livez")
    @handled(scope="open")
    async def livez() -> Health:
        return Health(service=service, status="alive")

    @router.get("/readyz", responses={503: {"model": Health}})
    @handled(scope="open")
    async def readyz(response: Response) -> Health:
        checks = await readiness()
        status = "ready" if all(check.ok for check in checks) else "not_ready"
        if lifecycle.draining:
            status = "draining"
        if status != "ready":
            response.status_code = 503
        return Health.model_validate({"service": service, "status": status, "checks": checks})

    if instruments is not None:

        @router.get("/metrics", response_class=Response)
        @handled(scope="open")
        async def metrics() -> Response:
            return Response(instruments.exposition(), media_type=EXPOSITION)

    return router
