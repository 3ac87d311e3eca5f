"""Refuses strangers, and requests of an overloaded lane, as soon as their headers are read: before body, task, parsing.

A request that a lane refuses costs about a millisecond on its way there. At several times the load that a process
carries, these milliseconds would be most of its time.
"""

import time
from collections.abc import Mapping

from starlette.responses import Response
from starlette.types import Scope

from services.chassis.access.access_check import Access
from services.chassis.access.cross_origin import CrossOrigin
from services.chassis.admission.lanes import client_of
from services.chassis.admission.limits import Limiter
from services.chassis.deadlines import DEADLINE_HEADER, DEFAULT_MS, MOST_MS, parse_deadline
from services.chassis.errors import Malformed, Overloaded, ProblemError
from services.chassis.instruments import Instruments
from services.chassis.requests.audit import write_audit
from services.chassis.requests.handling import Handling, Lane
from services.chassis.requests.rendering import WordingOf, render
from services.chassis.requests.telemetry import PROBES, REQUEST_ID_HEADER, assign_request_id, headers_of, received_at


class EarlyRefusals:
    """Owns the lanes that refuse early. `access` knows callers, `wording_of` determines how an error looks.

    `cross_origin`: of an app that pages of other origins may call.
    """

    def __init__(
        self,
        access: Access,
        lanes: Mapping[Lane, Limiter],
        wording_of: WordingOf,
        instruments: Instruments,
        cross_origin: CrossOrigin | None = None,
    ) -> None:
        self._access = access
        self._lanes = lanes
        self._wording_of = wording_of
        self._instruments = instruments
        self._cross_origin = cross_origin

    def of(self, scope: Scope) -> Response | None:
        """Returns the refusal of a request whose headers were read; None where the rest must be read to decide."""
        if self._cross_origin is not None and scope["method"] == "OPTIONS":
            return None  # a browser asks whether the page may call at all: neither key nor lane is needed for that
        handling = self._access.handling(scope)
        if (denied := self._access.refusal(scope)) is not None:
            return self._answer(scope, handling, denied)
        limiter = None if scope["path"] in PROBES else self._lanes.get(handling.lane)
        if limiter is None or not limiter.refuses:
            return None
        refusal = _overload(scope, handling, limiter)
        return None if refusal is None else self._answer(scope, handling, refusal)

    def _answer(self, scope: Scope, handling: Handling, refusal: ProblemError) -> Response:
        headers = headers_of(scope)
        identity = assign_request_id(headers.get(REQUEST_ID_HEADER, ""))
        response = render(refusal, self._wording_of(scope))
        response.raw_headers.append((REQUEST_ID_HEADER.encode(), identity.encode()))
        if self._cross_origin is not None:
            self._cross_origin.add_headers(response, headers.get("origin"))
        took_s = time.monotonic() - received_at(scope)
        self._instruments.observe(scope["method"], "refused-early", response.status_code, took_s, {})
        write_audit(scope, handling, response.status_code)
        return response


def _overload(scope: Scope, handling: Handling, limiter: Limiter) -> Overloaded | None:
    header, default_ms = headers_of(scope).get(DEADLINE_HEADER), MOST_MS if handling.slow else DEFAULT_MS
    try:
        deadline = parse_deadline(header, default_ms, received_at(scope))
    except Malformed:
        return None  # the reader of the whole request refuses it
    return limiter.early_refusal(deadline.remaining_s, client_of(scope))
