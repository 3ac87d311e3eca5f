"""Owns the routes for monitoring a process: liveness, readiness and metrics."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextvars import Context
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse

from services.chassis.instruments import Instruments
from services.chassis.requests.handling import handled
from services.contracts.health import Check, Health

logger = logging.getLogger(__name__)

EXPOSITION = "text/plain; version=0.0.4; charset=utf-8"
Readiness = Callable[[], Coroutine[Any, Any, tuple[Check, ...]]]


@dataclass(slots=True)
class Lifecycle:
    """Whether the process is draining. Set on SIGTERM: /readyz fails first, so that callers leave before it closes."""

    draining: bool = False


class SharedReadiness:
    """Runs one check at a time, and shares its answer with concurrent callers.

    /readyz needs no key, and a check queries a store: otherwise anybody could flood the store through us.
    """

    def __init__(self, readiness: Readiness) -> None:
        self._readiness = readiness
        self._running: asyncio.Task[tuple[Check, ...]] | None = None

    async def checks(self) -> tuple[Check, ...]:
        """Returns the outcome of the running check, or of a new one. Raises what the check raises."""
        if self._running is None or self._running.done():
            # In a context of its own, without the deadline and id of one caller's request.
            self._running = asyncio.create_task(self._readiness(), context=Context())
        return await asyncio.shield(self._running)


def probe_router(
    service: str, lifecycle: Lifecycle, readiness: Readiness, instruments: Instruments | None, *, detailed: bool
) -> APIRouter:
    """Returns the probes' routes. /livez answers while the event loop runs; /readyz runs the service's own checks.

    `instruments` None: /metrics is elsewhere. `detailed`: the answer has the details of the checks, which name paths
    and collections. The log has them in any case, when the outcome of a check changes.
    """
    router, shared = APIRouter(tags=["probes"]), SharedReadiness(readiness)
    outcomes: dict[str, bool] = {}

    @router.get("/livez")
    @handled(scope="open")
    async def livez() -> Health:
        """Answers while the process runs."""
        return Health(service=service, status="alive")

    @router.get("/readyz", responses={503: {"model": Health}})
    @handled(scope="open")
    async def readyz(response: Response) -> Health:
        """Checks whether the service can do its work; 503 if it cannot."""
        checks = await shared.checks()
        status = "ready" if all(check.ok for check in checks) else "not_ready"
        if lifecycle.draining:
            status = "draining"
        for check in checks:
            if outcomes.get(check.name) != check.ok:
                outcomes[check.name] = check.ok
                level = logging.INFO if check.ok else logging.WARNING
                logger.log(level, "check", extra={"check": check.name, "ok": check.ok, "detail": check.detail})
        if not detailed:
            checks = tuple(Check(name=check.name, ok=check.ok) for check in checks)
        if status != "ready":
            response.status_code = 503
        return Health.model_validate({"service": service, "status": status, "checks": checks})

    if instruments is not None:

        @router.get("/metrics", response_class=PlainTextResponse)
        @handled(scope="open")
        async def metrics() -> Response:
            """Returns the metrics in the format of Prometheus."""
            return Response(instruments.exposition(), media_type=EXPOSITION)

    return router
