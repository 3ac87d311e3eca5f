"""Errors on the wire: RFC 9457 problem details."""

from services.contracts.base import Wire


class FieldError(Wire):
    """What is wrong with one field; the value itself is never echoed."""

    field: str
    message: str


class Problem(Wire):
    """`application/problem+json`. `type` is a stable name (`urn:problem:not-found`); `detail` says what to do."""

    type: str
    title: str
    status: int
    detail: str
    request_id: str
    errors: tuple[FieldError, ...] = ()
