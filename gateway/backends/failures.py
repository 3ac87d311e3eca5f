"""Owns BackendFailed, the failure of a call to a backend, and maps it to the problem for our caller."""

import math

from services.chassis import errors
from services.contracts.query import Reason

LOAD_AGAIN = (
    "Waiting does not help: load the collection again (PUT, then its documents and publish with the `build` that PUT "
    "answers; the evaluator's `ingest` does all)."
)
# A service's advice to a direct caller. Through the gateway the collection was begun, so the advice would be wrong.
BEGIN_FIRST = "; begin it first."


class BackendFailed(Exception):
    """A backend gave no usable answer. `status` is its HTTP status, if it answered; `kind` the name of its problem.

    `unsent`: no connection was made, so the backend cannot have processed the request.
    """

    def __init__(
        self,
        backend: str,
        reason: Reason,
        detail: str,
        *,
        status: int | None = None,
        kind: str | None = None,
        retry_after_s: float | None = None,
        unsent: bool = False,
    ) -> None:
        super().__init__(f"{backend}: {detail}")
        self.backend = backend
        self.reason = reason
        self.detail = detail
        self.status = status
        self.kind = kind
        self.retry_after_s = retry_after_s
        self.unsent = unsent

    @property
    def unknown_generation(self) -> bool:
        """Whether the backend does not hold the generation."""
        return self.status == 404 and self.kind == errors.UnknownCollection.kind

    @property
    def other_build(self) -> bool:
        """Whether the generation belongs to another build than the request names."""
        return self.status == 409 and self.kind == errors.BuildConflict.kind

    @property
    def stamp_differs(self) -> bool:
        """Whether the backend refuses the generation because another model or analysis made it."""
        return self.status == 409 and self.kind == errors.StampMismatch.kind

    @property
    def permanent(self) -> bool:
        """Whether a retry cannot help: the backend answers, and refuses because of its data or the request."""
        if self.status == errors.InsufficientStorage.status:
            return True
        return self.status is not None and 400 <= self.status < 500 and self.status not in (408, 429)

    @property
    def caller_erred(self) -> bool:
        """Whether the backend refuses the request because of the caller's input."""
        return self.status == 422


def not_held(backend: str, generation: str) -> BackendFailed:
    """Returns the failure of a backend that lacks a generation which others serve: its engine or directory was
    replaced."""
    detail = f"it does not hold {generation}. {LOAD_AGAIN}"
    return BackendFailed(backend, "refused", detail, status=404, kind=errors.UnknownCollection.kind)


def advice(failure: BackendFailed) -> str:
    """Returns the backend's message, with advice for our caller where the backend's own does not apply."""
    if not failure.unknown_generation or failure.detail.endswith(LOAD_AGAIN):
        return failure.detail
    return f"{failure.detail.removesuffix(BEGIN_FIRST).rstrip('. ')}. {LOAD_AGAIN}"


def as_problem(failure: BackendFailed) -> errors.ProblemError:
    """Returns the problem for a request that needs this backend; a fault of the caller stays a 4xx."""
    detail = f"{failure.backend}: {advice(failure)}"
    match failure.status:
        case 404 if failure.unknown_generation:
            return errors.NotHeld(detail)
        case 409 if failure.kind == errors.StampMismatch.kind:
            return errors.StampMismatch(f"{detail} To rebuild beside the live one, begin with new_generation: true.")
        case 409 if failure.kind == errors.DamagedCollection.kind:
            return errors.DamagedCollection(detail)
        case 409 if failure.other_build:
            return errors.BuildConflict(detail)
        case 409:
            return errors.Conflict(detail)
        case 413:
            return errors.BodyTooLarge(detail)
        case 422 if failure.kind == errors.AnswerTooLarge.kind:
            return errors.AnswerTooLarge(detail)
        case 422:
            return errors.BadInput(detail)
        case 507:
            return errors.InsufficientStorage(detail)
    match failure.reason:
        case "overloaded":
            after_s = max(1, math.ceil(failure.retry_after_s or 0))
            return errors.Overloaded(f"{detail} Try again after the seconds in Retry-After.", retry_after_s=after_s)
        case "timeout" | "deadline":
            return errors.DeadlineExceeded(
                f"{detail} Send the same again, it goes on where it was; or a larger X-Deadline-Ms."
            )
        case "unreachable":
            return errors.Unavailable(f"{detail} Try again when it is back.", retry_after_s=1)
        case _ if failure.status == 503:
            return errors.Unavailable(detail, retry_after_s=1)
        case _:
            return errors.UpstreamFailed(detail)
