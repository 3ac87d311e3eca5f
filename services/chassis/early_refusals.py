"""Refuses requests of an overloaded lane as soon as their headers are read: before the body, any task or any parsing.

A request that a lane refuses costs about a millisecond on its way there. At several times the load that a process
carries, these milliseconds would be most of its time.
"""

import time
from collections.abc import Mapping

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope

from services.chassis.cross_origin import CrossOrigin
from services.chassis.deadline_middleware import parse_deadline
from services.chassis.deadlines import DEADLINE_HEADER, DEFAULT_MS, MOST_MS
from services.chassis.errors import Malformed
from services.chassis.handling import HandlingTable, Lane
from services.chassis.instruments import Instruments
from services.chassis.lanes import client_of
from services.chassis.limits import Limiter
from services.chassis.rendering import Wordings, render
from services.chassis.telemetry import PROBES, REQUEST_ID_HEADER, assign_request_id, received_at


class EarlyRefusals:
    """Owns the lanes that refuse early. `handling` tells the lane of a request, `wordings` are those of create_app.

    `cross_origin`: of an app that pages of other origins may call.
    """

    def __init__(
        self,
        handling: HandlingTable,
        lanes: Mapping[Lane, Limiter],
        wordings: Wordings,
        instruments: Instruments,
        cross_origin: CrossOrigin | None = None,
    ) -> None:
        self._handling = handling
        self._lanes = lanes
        self._wordings = wordings
        self._instruments = instruments
        self._cross_origin = cross_origin

    def of(self, scope: Scope) -> Response | None:
        """Returns the refusal of a request whose headers were read, or None where it has to be read to tell."""
        if not any(limiter.refuses for limiter in self._lanes.values()) or scope["path"] in PROBES:
            return None
        if self._cross_origin is not None and scope["method"] == "OPTIONS":
            return None  # a browser asks whether the page may call at all: no lane is needed to answer that
        handling = self._handling.of(scope["method"], scope["path"])
        limiter = self._lanes.get(handling.lane)
        if limiter is None:
            return None
        headers = Headers(scope=scope)
        try:
            header, default_ms = headers.get(DEADLINE_HEADER), MOST_MS if handling.slow else DEFAULT_MS
            deadline = parse_deadline(header, default_ms, received_at(scope))
        except Malformed:
            return None  # what reads the whole request says so
        refusal = limiter.early_refusal(deadline.remaining_s, client_of(scope))
        if refusal is None:
            return None
        identity = assign_request_id(headers.get(REQUEST_ID_HEADER, ""))
        response = render(refusal, self._wordings.get(scope["path"]))
        response.headers[REQUEST_ID_HEADER] = identity
        if self._cross_origin is not None:
            self._cross_origin.add_headers(response, headers.get("origin"))
        took_s = time.monotonic() - received_at(scope)
        self._instruments.observe(scope["method"], "refused-early", response.status_code, took_s, {})
        return response
