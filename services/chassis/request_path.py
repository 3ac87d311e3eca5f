"""Takes a request from the server to its route and its answer back: caller, deadline, body, lane, route.

Bodies of unknown callers are not read; others must arrive within the deadline, before their request takes a slot. Every
error is rendered here, and every answer gets its headers and is reported here.

Strangers, and requests of an overloaded lane, are refused as soon as their headers are read: before body, task and
parsing. A request that a lane refuses costs about a millisecond on its way there. At several times the load that a
process carries, these milliseconds would be most of its time.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from fastapi.exceptions import RequestValidationError
from fastapi.middleware.asyncexitstack import AsyncExitStackMiddleware
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.chassis.admission.lanes import client_of
from services.chassis.admission.limits import Limiter
from services.chassis.deadlines import DEADLINE_HEADER, Deadline, parse_deadline, set_deadline
from services.chassis.errors import DeadlineExceeded, Malformed, Overloaded, OverShare, ProblemError
from services.chassis.instruments import Instruments
from services.chassis.requests.body import Bodies, CountedBytes, run_until_disconnect
from services.chassis.requests.callers import CallerCheck, caller_of, write_audit
from services.chassis.requests.handling import Handling, Lane, matched_route
from services.chassis.requests.json_route import JsonRoute, release_frames
from services.chassis.requests.rendering import WordingOf, asked_model, render
from services.chassis.requests.spans import annotate
from services.chassis.requests.telemetry import (
    CACHED_HEADER,
    PAUSES,
    PROBES,
    REQUEST_ID_HEADER,
    UNIT_HEADER,
    WRONG_KEY,
    assign_request_id,
    begin_lookups,
    begin_notes,
    begin_stages,
    headers_of,
    lookups_header,
    received_at,
)
from services.contracts.version import VERSION, VERSION_HEADER

logger = logging.getLogger(__name__)

# Begins the span of a request, by its name and the headers of the request.
Trace = Callable[[str, Mapping[str, str]], AbstractContextManager[None]]


@dataclass(slots=True)
class Answer:
    """The answer of one request on its way back: adds our headers, and knows its status, 0 until it begins."""

    request_id: str
    started: float
    timings: Mapping[str, float]
    lookups: Mapping[str, tuple[int, int]]
    notes: Mapping[str, str]
    instruments: Instruments
    forward: Send
    status: int = 0

    async def send(self, message: Message) -> None:
        """Sends on a message of the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            stages = [*self.timings.items(), ("total", (time.monotonic() - self.started) * 1000)]
            timing = ", ".join([f"{name};dur={ms:.2f}" for name, ms in stages])
            own = ((REQUEST_ID_HEADER, self.request_id), ("server-timing", timing), *self._reported_lookups())
            message["headers"] = [*message["headers"], *((name.encode(), value.encode()) for name, value in own)]
        await self.forward(message)

    def is_begun(self) -> bool:
        """Returns whether a part of the answer was sent, so that no other can be."""
        return self.status != 0

    def _reported_lookups(self) -> tuple[tuple[str, str], ...]:
        if "" in self.lookups:
            hits, results = self.lookups[""]
            self.instruments.cached.labels("hit").inc(hits)
            self.instruments.cached.labels("miss").inc(results - hits)
        return ((CACHED_HEADER, lookups_header(self.lookups)),) if self.lookups else ()


class CrossOrigin(CORSMiddleware):
    """CORS for our methods and headers. Also adds its headers to an answer that is made before any middleware."""

    def __init__(self, app: ASGIApp, origins: Sequence[str]) -> None:
        super().__init__(
            app,
            allow_origins=origins,
            allow_methods=("GET", "HEAD", "POST", "PUT", "DELETE"),
            allow_headers=(
                "authorization",
                "content-type",
                "cache-control",
                DEADLINE_HEADER,
                REQUEST_ID_HEADER,
                UNIT_HEADER,
            ),
            expose_headers=("retry-after", "server-timing", CACHED_HEADER, REQUEST_ID_HEADER),
        )

    def add_headers(self, response: Response, origin: str | None) -> None:
        """Adds to an answer what a page of this origin needs to read it, if it may."""
        if origin is None or not self.is_allowed_origin(origin):
            return
        response.headers.update(self.simple_headers)
        if not self.allow_all_origins:
            self.allow_explicit_origin(response.headers, origin)


class RequestPath:
    """The app of a service around its routes. `router` answers what no declared route does.

    `refusing` are the lanes that refuse early. Pages of `cors_origins` may call from a browser. Without `trace`,
    requests have no spans, and what their headers say of a trace is neither read nor passed on.
    """

    def __init__(
        self,
        router: ASGIApp,
        callers: CallerCheck,
        lanes: Mapping[Lane, Limiter],
        refusing: Mapping[Lane, Limiter],
        bodies: Bodies,
        wording_of: WordingOf,
        instruments: Instruments,
        cors_origins: Sequence[str],
        trace: Trace | None = None,
    ) -> None:
        self._trace = trace
        self._router = AsyncExitStackMiddleware(router)  # routes of FastAPI expect the stack
        self._callers = callers
        self._lanes = lanes
        self._refusing = refusing
        self._bodies = bodies
        self._wording_of = wording_of
        self._instruments = instruments
        # Outside the rendering of errors: a page could not read them without the CORS headers.
        self._cross_origin = CrossOrigin(self._serve, cors_origins) if cors_origins else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self._cross_origin or self._serve)(scope, receive, send)

    def early_refusal(self, scope: Scope) -> Response | None:
        """Returns the refusal of a request whose headers were read; None where the rest must be read to decide."""
        if self._cross_origin is not None and scope["method"] == "OPTIONS":
            return None  # a browser asks whether the page may call at all: neither key nor lane is needed for that
        handling = self._callers.handling(scope)
        refusal = self._callers.refusal(scope) or self._overload(scope, handling)
        if refusal is None:
            return None
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

    def _overload(self, scope: Scope, handling: Handling) -> Overloaded | None:
        limiter = None if scope["path"] in PROBES else self._refusing.get(handling.lane)
        if limiter is None or not limiter.refuses:
            return None
        try:
            deadline = _deadline_of(scope, handling)
        except Malformed:
            return None  # the reader of the whole request refuses it
        return limiter.early_refusal(deadline.remaining_s, client_of(scope))

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._router(scope, receive, send)
            return
        handling = self._callers.handling(scope)
        if self._trace is None or scope["path"] in PROBES or not handling.logged:
            await self._answer(scope, handling, receive, send)
            return
        matched = matched_route(scope)
        name = f"{scope['method']} {'unmatched' if matched is None else matched.route.path}"
        with self._trace(name, headers_of(scope)):
            answer = await self._answer(scope, handling, receive, send)
            annotate({"request_id": answer.request_id, **answer.notes})
            annotate({"http.response.status_code": answer.status}, failed=answer.status >= 500)

    async def _answer(self, scope: Scope, handling: Handling, receive: Receive, send: Send) -> Answer:
        headers = headers_of(scope)
        identity = assign_request_id(headers.get(REQUEST_ID_HEADER, ""))
        lookups = begin_lookups(headers.get("cache-control", ""))
        answer = Answer(identity, received_at(scope), begin_stages(), lookups, begin_notes(), self._instruments, send)
        try:
            await self._admit(scope, handling, receive, answer)
        except Exception as error:
            if answer.is_begun():  # the error cannot be sent, the connection must break
                logger.exception("failed while answering")
                raise
            answer.lookups = {}
            await render(error, self._wording_of(scope))(scope, receive, answer.send)
            error.__traceback__ = None  # its frames hold the scope, which may hold it
        finally:
            self._report(scope, handling, answer)
        return answer

    async def _admit(self, scope: Scope, handling: Handling, receive: Receive, answer: Answer) -> None:
        """Admits the callers that callers.py accepts, each key up to its share in flight."""
        refusal = self._callers.refusal(scope)
        if refusal is not None:
            raise refusal
        caller = caller_of(scope)
        if caller is None:
            await self._work(scope, handling, receive, answer)
            return
        if not caller.share.enter():
            raise OverShare("This key has too many requests in flight; wait for their answers.", retry_after_s=1)
        try:
            await self._work(scope, handling, receive, answer)
        finally:
            caller.share.leave()

    async def _work(self, scope: Scope, handling: Handling, receive: Receive, answer: Answer) -> None:
        """Reads the body and runs the route, both within the deadline."""
        deadline = _deadline_of(scope, handling)
        set_deadline(deadline)
        limiter = None if scope["path"] in PROBES else self._lanes.get(handling.lane)
        counted = CountedBytes()

        async def in_lane(scope: Scope, receive: Receive, send: Send) -> None:
            if limiter is None:  # a full service must still answer probes
                await self._answer_by_route(scope, receive, answer, body)
                return
            async with limiter.slot(deadline.remaining_s, client=client_of(scope)):
                await self._answer_by_route(scope, receive, answer, body)

        try:
            async with asyncio.timeout(deadline.remaining_s) as bound:
                body = await self._bodies.read(scope, handling, receive, counted)
                await run_until_disconnect(in_lane, scope, body, answer.send, answer.is_begun)
        except TimeoutError as error:
            if answer.is_begun() or not bound.expired():
                raise
            raise DeadlineExceeded("Not done within X-Deadline-Ms; send a larger one or ask for less.") from error
        finally:
            self._bodies.release(counted)

    async def _answer_by_route(self, scope: Scope, receive: Receive, answer: Answer, body: bytes) -> None:
        """Runs the route. Its errors are answers like others: its slot was used well."""
        try:
            matched = matched_route(scope)
            if matched is None:
                await self._router(scope, receive, answer.send)
                return
            route = matched.route
            scope["route"], scope["endpoint"] = route, route.endpoint
            if isinstance(route, JsonRoute) and route.is_direct:
                response = await route.answer(scope, receive, body, matched.parameters)
                await response(scope, receive, answer.send)
                return
            scope["path_params"] = {
                name: route.param_convertors[name].convert(value) for name, value in matched.parameters.items()
            }
            await AsyncExitStackMiddleware(route.handle)(scope, receive, answer.send)
        except (ProblemError, HTTPException, RequestValidationError) as error:
            if answer.is_begun():
                raise
            if isinstance(error, Overloaded) and error.pauses:
                scope[PAUSES] = True
            refused = render(error, self._wording_of(scope), asked_model(scope))
            refused.headers[VERSION_HEADER] = VERSION
            await refused(scope, receive, answer.send)
            error.__traceback__ = None  # its frames hold the body, as do those of what a validator has raised
            for fault in error.errors() if isinstance(error, RequestValidationError) else ():
                release_frames(fault.get("ctx", {}).get("error"))

    def _report(self, scope: Scope, handling: Handling, answer: Answer) -> None:
        seconds = time.monotonic() - answer.started
        route = getattr(scope.get("route"), "path", "unmatched")
        self._instruments.observe(scope["method"], route, answer.status, seconds, answer.timings)
        write_audit(scope, handling, answer.status)
        # Refusals are only counted: at several times what a process carries, their lines would be most of its work.
        if answer.status == 429 or scope.get(WRONG_KEY, False):
            return
        if answer.status >= 400 or (scope["path"] not in PROBES and handling.logged):
            logger.info(
                "request",
                extra={
                    "method": scope["method"],
                    "route": route,
                    "status": answer.status,
                    "ms": round(seconds * 1000, 2),
                    "stages_ms": {name: round(ms, 2) for name, ms in answer.timings.items()},
                    **answer.notes,
                },
            )


def _deadline_of(scope: Scope, handling: Handling) -> Deadline:
    """Returns the deadline of a request. Raises Malformed for an invalid header."""
    return parse_deadline(headers_of(scope).get(DEADLINE_HEADER), handling.default_ms, received_at(scope))
