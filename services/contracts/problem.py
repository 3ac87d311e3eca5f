"""Owns errors on the wire: RFC 9457 problem details."""

from services.contracts.base import Wire


class FieldError(Wire):
    """The fault of one field. Never contains the value itself."""

    field: str
    message: str


class Problem(Wire):
    """The body of `application/problem+json`. `type` is stable (`urn:problem:not-found`); `detail` says what to do."""

    type: str
    title: str
    status: int
    detail: str
    request_id: str
    errors: tuple[FieldError, ...] = ()
