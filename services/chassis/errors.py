"""Defines the errors that our processes raise, as plain exceptions. Does not render them: rendering.py does."""

from typing import ClassVar

from services.contracts.problem import FieldError


class ProblemError(Exception):
    """An error with its own status and stable kind. `detail` is one sentence that says what the caller can do.

    `errors` names the fields at fault. `retry_after_s` tells the caller when to try again; with `closes` the
    connection ends with the answer.
    """

    status: ClassVar[int] = 500
    kind: ClassVar[str] = "internal"
    title: ClassVar[str] = "Internal error"

    def __init__(
        self,
        detail: str,
        *,
        errors: tuple[FieldError, ...] = (),
        retry_after_s: int | None = None,
        closes: bool = False,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = errors
        self.retry_after_s = retry_after_s
        self.closes = closes


class Malformed(ProblemError):
    status, kind, title = 400, "malformed", "Malformed request"


class NotFound(ProblemError):
    status, kind, title = 404, "not-found", "Not found"


class UnknownCollection(NotFound):
    kind, title = "unknown-collection", "Unknown collection"


class UnknownPipeline(NotFound):
    kind, title = "unknown-pipeline", "Unknown pipeline"


class UnknownModel(NotFound):
    kind, title = "unknown-model", "Unknown model"


class Conflict(ProblemError):
    status, kind, title = 409, "conflict", "Conflict with the present state"


class StampMismatch(Conflict):
    """A collection was made by something else than what would now open it (another model, preset, schema)."""

    kind, title = "stamp-mismatch", "Made by something else"


class NotHeld(Conflict):
    """One of the services lacks a collection that the others hold: it must be loaded again, waiting does not help."""

    kind, title = "not-held", "Not held by every service"


class BuildNeeded(Conflict):
    """Only an unpublished generation is there, and the request does not say that it belongs to its build."""

    kind, title = "build-token-needed", "A build token is needed"


class BuildConflict(Conflict):
    """A generation belongs to another build than the one that the request names."""

    kind, title = "build-conflict", "Another build"


class Superseded(Conflict):
    """A newer generation was published while this one was being built."""

    kind, title = "superseded", "A newer generation is live"


class DamagedCollection(Conflict):
    """A generation is there and cannot be opened: waiting does not help, removing or restoring it does."""

    kind, title = "damaged-collection", "Damaged collection"


class BodyTooLarge(ProblemError):
    status, kind, title = 413, "body-too-large", "Body too large"


class RequestTimeout(ProblemError):
    status, kind, title = 408, "request-timeout", "The request took too long to arrive"


class UrlTooLong(ProblemError):
    status, kind, title = 414, "url-too-long", "URL too long"


class HeadTooLarge(ProblemError):
    status, kind, title = 431, "headers-too-large", "Headers too large"


class AnswerTooLarge(ProblemError):
    """What was asked for is there, and too much for one answer."""

    status, kind, title = 422, "answer-too-large", "Answer too large"


class UnsupportedMedia(ProblemError):
    status, kind, title = 415, "unsupported-media-type", "Unsupported media type"


class BadInput(ProblemError):
    status, kind, title = 422, "bad-input", "Bad input"


class Overloaded(ProblemError):
    """Full now, not slow later."""

    status, kind, title = 429, "overloaded", "Overloaded"

    def __init__(self, detail: str, *, retry_after_s: int = 1) -> None:
        super().__init__(detail, retry_after_s=retry_after_s)


class ClientGone(ProblemError):
    """The caller hung up; nobody reads this answer, the logs and metrics do."""

    status, kind, title = 499, "client-gone", "Client closed the request"


class UpstreamFailed(ProblemError):
    """What we depend on answered, but with an error or nonsense."""

    status, kind, title = 502, "upstream-failed", "Upstream failed"


class Unavailable(ProblemError):
    """What we depend on cannot be reached, or we are not ready."""

    status, kind, title = 503, "unavailable", "Unavailable"


class DeadlineExceeded(ProblemError):
    status, kind, title = 504, "deadline-exceeded", "Deadline exceeded"


class InsufficientStorage(ProblemError):
    """The disk is too full to write; what is there can be read."""

    status, kind, title = 507, "insufficient-storage", "Insufficient storage"
