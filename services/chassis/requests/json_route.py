"""Owns the route class of all routers: parses bodies within bounds, refuses parameters that a route does not have.

The shape of a body is bounded before it is parsed: 8 MB can hold millions of values, which take gigabytes once parsed.
These checks use bytes methods that run in C. What passes them is small enough to parse on the event loop.

Calls an endpoint itself where FastAPI's own way has nothing to add: solving dependencies, exit stacks and serialisation
took a quarter of the gateway's time for a search.
"""

import asyncio
import inspect
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from functools import cache
from itertools import accumulate
from typing import Any, NoReturn

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.params import Form
from fastapi.routing import APIRoute
from fastapi.utils import create_model_field
from pydantic import BaseModel
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope

from services.chassis.errors import BadInput, Malformed, ProblemError
from services.chassis.requests.body import UNCOUNTED_BYTES
from services.chassis.requests.telemetry import headers_of
from services.contracts.problem import FieldError, Problem
from services.contracts.validation_messages import known_fields

DEEPEST = 64
MOST_VALUES = 100_000
MOST_KEYS = 1_000
MOST_DIGITS = 40

# Opening brackets become +1, closing ones -1; all other bytes are dropped.
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
# translate takes 1 ns a byte, whatever it drops; bytes.count takes 30 ns for each byte found.
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_NO_OPENING = bytes(set(range(256)) - set(b"[{"))
_NO_COUNTED = bytes(set(range(256)) - set(b"[{,"))
_NO_QUOTES = bytes(set(range(256)) - set(b'"'))


def release_frames(error: object) -> None:
    """Drops the tracebacks of an error and of its causes, whose frames hold the error itself and the request's body.

    Such a cycle stays until the next garbage collection, and `serve` makes those rare. Of a date that cannot be read,
    pydantic's `error` is text.
    """
    while isinstance(error, BaseException):
        error.__traceback__ = None
        error = error.__cause__


async def _parsed(body: bytes) -> Any:
    """Checks the shape of the JSON before parsing it. Validation handles lone surrogates."""
    value = parse_json(body)
    if len(body) > UNCOUNTED_BYTES:
        await asyncio.sleep(0)  # parsing and validation take up to 0.1 s each: lets other requests run between
    return value


class JsonRequest(Request):
    """A request whose JSON is parsed within bounds."""

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            self._json = await _parsed(await self.body())
        return self._json


@cache
def _error_field(status: int | str, model: type[BaseModel]) -> Any:  # a ModelField, which FastAPI does not export
    return create_model_field(f"Response_{status}", model, mode="serialization")


class JsonRoute(APIRoute):
    """The route class of all routers: parses bodies with JsonRequest, refuses parameters that its API does not have."""

    def __init__(
        self,
        path: str,
        endpoint: Callable[..., Any],
        *,
        responses: dict[int | str, dict[str, Any]] | None = None,
        **given: Any,
    ) -> None:
        super().__init__(path, endpoint, **given)
        self.path_regex = re.compile(self.path_regex.pattern, re.DOTALL)  # an id in a path may hold line feeds
        # The same models for all routes. FastAPI builds them anew for each: half the time that a route takes.
        self.responses = responses or {}
        self.response_fields = {
            status: _error_field(status, response["model"])
            for status, response in self.responses.items()
            if response.get("model")
        }
        # A vendor's clients may send parameters of their own (Azure's `api-version`), and so may browsers and probes.
        own_wire = path.startswith("/v1/") and self.responses.get("4XX", {}).get("model") is Problem
        self._parameters = {field.alias for field in self.dependant.query_params} if own_wire else None
        self._body = self.dependant.body_params[0] if self.dependant.body_params else None
        self.is_direct = self._is_direct()

    def _is_direct(self) -> bool:
        """Returns whether `answer` can serve this route: its endpoint takes at most parameters of the path, optional
        headers, one model and the request, and returns a Response."""
        takes = self.dependant
        others = (
            *(takes.dependencies, takes.query_params, takes.cookie_params, takes.body_params[1:]),
            *(takes.response_param_name, takes.background_tasks_param_name, takes.http_connection_param_name),
        )
        returned = inspect.signature(self.endpoint).return_annotation
        whole_body = self._body is None or self.body_field is self._body
        form = self._body is not None and isinstance(self._body.field_info, Form)
        return returned is Response and not any(others) and whole_body and not form

    async def answer(self, scope: Scope, receive: Receive, body: bytes, parameters: Mapping[str, str]) -> Response:
        """Calls the endpoint of a direct route. Raises FastAPI's error for values that do not fit its parameters."""
        self._refuse_unknown_parameters(scope)
        values: dict[str, Any] = {}
        errors: list[Any] = []
        for field in self.dependant.path_params:
            values[field.name], faults = field.validate(parameters[field.alias], values, loc=("path", field.alias))
            errors += faults or ()
        for field in self.dependant.header_params:
            if (header := headers_of(scope).get(field.alias.lower())) is not None:
                values[field.name], faults = field.validate(header, values, loc=("header", field.alias))
                errors += faults or ()
        if self._body is not None:
            if body:
                values[self._body.name], faults = self._body.validate(await _parsed(body), values, loc=("body",))
                errors += faults or ()
            elif self._body.field_info.is_required():
                errors.append({"type": "missing", "loc": ("body",), "msg": "Field required", "input": None})
        if errors:
            raise RequestValidationError(errors)
        if self.dependant.request_param_name:
            values[self.dependant.request_param_name] = Request(scope, receive)
        called: Coroutine[Any, Any, Response] = self.endpoint(**values)
        return await called

    def get_route_handler(self) -> Any:  # the return type is FastAPI's own
        handle = super().get_route_handler()

        async def with_json_request(request: Request) -> Any:
            self._refuse_unknown_parameters(request.scope)
            try:
                return await handle(JsonRequest(request.scope, request.receive))
            except HTTPException as error:
                problem = error.__cause__
                if not isinstance(problem, ProblemError):
                    raise
                release_frames(error)
            # FastAPI turns any error raised while reading a body into its own 400: raise ours instead.
            try:
                raise problem
            finally:
                del problem

        return with_json_request

    def _refuse_unknown_parameters(self, scope: Scope) -> None:
        """Raises BadInput for a parameter in the URL that the route does not have, and names where it belongs."""
        known = self._parameters
        if known is None or not scope["query_string"]:
            return
        in_body = [] if self.body_field is None else known_fields(self.body_field.field_info.annotation, ())
        for name in QueryParams(scope["query_string"]):
            if name in known:
                continue
            if name in in_body:
                message = "this belongs in the JSON of the body; nothing of the URL's query is read for it"
            else:
                listed = f"those are: {', '.join(sorted(known))}" if known else "it has none"
                message = f"this route has no such parameter in its URL ({listed}); leave it out"
            shown = name[:40].encode(errors="replace").decode()
            raise BadInput(f"query.{shown}: {message}.", errors=(FieldError(field=f"query.{shown}", message=message),))


def parse_json(body: bytes) -> Any:
    """Parses a JSON text in UTF-8. Raises Malformed or BadInput, which name what is wrong with it."""
    _check_shape(body)
    try:
        return _DECODER.decode(body.decode())
    except RecursionError as error:
        raise Malformed(f"The JSON is nested too deeply; {DEEPEST} levels are allowed.") from error
    except ValueError as error:  # bad UTF-8, bad JSON, NaN, a number of thousands of digits
        raise Malformed("The body is not valid JSON in UTF-8.") from error


def _check_shape(body: bytes) -> None:
    # Every value but the first of its list or object follows a comma, and a list or object is itself a value.
    counted = len(body.translate(None, _NO_COUNTED))
    # Strings contain brackets and commas too. They are removed only if the counts are high.
    if counted <= DEEPEST:
        return
    opening = len(body.translate(None, _NO_OPENING))
    if opening <= DEEPEST and counted <= MOST_VALUES:
        return
    if len(body.translate(None, _NO_QUOTES)) > 4 * MOST_VALUES:
        raise _too_many_values()
    # Without escaped backslashes and quotes, every quote is a delimiter.
    outside = b"".join(body.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])
    if len(outside.translate(None, _NO_COUNTED)) > MOST_VALUES:
        raise _too_many_values()
    steps = outside.translate(_STEPS, _NO_BRACKETS)
    if max(accumulate(memoryview(steps).cast("b")), default=0) > DEEPEST:
        raise Malformed(f"The JSON is nested too deeply; {DEEPEST} levels are allowed.")


def _too_many_values() -> BadInput:
    return BadInput(f"The body has more than {MOST_VALUES:,} values; send smaller batches.")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _parse_int(text: str) -> int:
    if len(text) > MOST_DIGITS:  # parsing an int takes quadratic time in its digits
        raise Malformed(f"A number has more than {MOST_DIGITS} digits.")
    return int(text)


def _parse_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise BadInput(f"A number is beyond what 64 bits can hold: {text[:20]}.")
    return number


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MOST_KEYS:
        raise BadInput(f"An object has more than {MOST_KEYS:,} keys.")
    made = dict(pairs)
    if len(made) < len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        shown = twice[:40].encode(errors="replace").decode()
        raise BadInput(f"The key '{shown}' stands twice in one object; send it once.")
    return made


_DECODER = json.JSONDecoder(
    object_pairs_hook=_build_object, parse_int=_parse_int, parse_float=_parse_float, parse_constant=_refuse_constant
)
