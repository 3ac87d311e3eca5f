"""Defines the errors that our processes raise, as plain exceptions. Does not render them: rendering.py does."""

from typing import ClassVar

from services.contracts.problem import FieldError


class ProblemError(Exception):
    """An error with an HTTP status and a stable kind. `detail` is one sentence that states what the caller can do.

    `errors` names the fields at fault; `retry_after_s` is in seconds; `closes` ends the connection after the answer.
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
    """A collection was made with another model, preset or schema than the one that would open it."""

    kind, title = "stamp-mismatch", "Made by something else"


class NotHeld(Conflict):
    """One of the services lacks a collection that the others hold. It must be loaded again; a retry does not help."""

    kind, title = "not-held", "Not held by every service"


class BuildNeeded(Conflict):
    """Only an unpublished generation exists, and the request does not carry its build token."""

    kind, title = "build-token-needed", "A build token is needed"


class BuildConflict(Conflict):
    """A generation belongs to another build than the one that the request names."""

    kind, title = "build-conflict", "Another build"


class Superseded(Conflict):
    """A newer generation was published while this one was being built."""

    kind, title = "superseded", "A newer generation is live"


class DamagedCollection(Conflict):
    """A generation exists but cannot be opened. It must be removed or restored; a retry does not help."""

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
    """The requested data exists but is too large for one answer."""

    status, kind, title = 422, "answer-too-large", "Answer too large"


class UnsupportedMedia(ProblemError):
    status, kind, title = 415, "unsupported-media-type", "Unsupported media type"


class BadInput(ProblemError):
    status, kind, title = 422, "bad-input", "Bad input"


class Overloaded(ProblemError):
    """The queue is full: the request is refused at once instead of waiting too long."""

    status, kind, title = 429, "overloaded", "Overloaded"

    def __init__(self, detail: str, *, retry_after_s: int = 1, pauses: bool = False) -> None:
        """`pauses`: after the answer, nothing of its connection is read for a moment (http_protocol.PAUSE_S)."""
        super().__init__(detail, retry_after_s=retry_after_s)
        self.pauses = pauses


class ClientGone(ProblemError):
    """The caller disconnected. The answer is not sent; logs and metrics record it."""

    status, kind, title = 499, "client-gone", "Client closed the request"


class UpstreamFailed(ProblemError):
    """A server that we depend on answered with an error, or with something that cannot be parsed."""

    status, kind, title = 502, "upstream-failed", "Upstream failed"


class Unavailable(ProblemError):
    """A server that we depend on cannot be reached, or this process is not ready."""

    status, kind, title = 503, "unavailable", "Unavailable"


class DeadlineExceeded(ProblemError):
    status, kind, title = 504, "deadline-exceeded", "Deadline exceeded"


class InsufficientStorage(ProblemError):
    """The disk is too full for writes; reads still work."""

    status, kind, title = 507, "insufficient-storage", "Insufficient storage"


class Unauthenticated(ProblemError):
    """The caller is not known: it sent no key, or one that is not active."""

    status, kind, title = 401, "unauthenticated", "A key is needed"

    def __init__(self, detail: str, *, wrong: bool, challenges_browser: bool = False) -> None:
        """`wrong`: the caller sent a key, and it is not active; the next one of its connection is answered later.

        `challenges_browser`: the answer lets a browser ask its user for a key.
        """
        super().__init__(detail)
        self.wrong = wrong
        self.challenges_browser = challenges_browser


class Forbidden(ProblemError):
    """The caller is known and may not do this."""

    status, kind, title = 403, "forbidden", "Not allowed"


class OverShare(ProblemError):
    """A key asks for more than its share. Others are served meanwhile."""

    status, kind, title = 429, "over-share", "More than the share of this key"


class WrongHost(ProblemError):
    """The request is for a host that is not this process: a web page may have been led here by its domain's address."""

    status, kind, title = 421, "wrong-host", "Wrong host"


class ForeignForm(ProblemError):
    """A form that a page of another origin sends in the name of a browser's user."""

    status, kind, title = 403, "foreign-form", "Form of another site"
