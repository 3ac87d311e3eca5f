"""Maps the errors of the Qdrant client to ours, most specific first; the original error stays as the cause."""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from services.chassis.errors import (
    Conflict,
    DeadlineExceeded,
    Overloaded,
    ProblemError,
    Unavailable,
    UnknownCollection,
    UpstreamFailed,
)
from services.chassis.settings.trust import certificate_fault

_READING_KEY_REFUSED = (
    "Qdrant refuses the key to read with; set QDRANT_SEARCH_API_KEY to one that may read, or QDRANT_API_KEY where that "
    "is not set."
)
_WRITING_KEY_REFUSED = "Qdrant refuses the key to write with; set QDRANT_API_KEY to one that may read and write."


@contextmanager
def qdrant_errors(asked: str, *, writes: bool = False) -> Iterator[None]:
    """Raises a ProblemError for every error of the client; `asked` is the collection's name without a prefix.

    `writes`: the call was sent with the key that writes, which a refusal then names.
    """
    try:
        yield
    except ResourceExhaustedResponse as error:
        raise Overloaded(f"Qdrant refuses more requests: {error}", retry_after_s=error.retry_after_s) from error
    except UnexpectedResponse as error:
        raise _of_status(error, asked, writes) from error
    except ResponseHandlingException as error:
        raise _of_source(error.source) from error
    except (ApiException, QdrantException) as error:
        raise UpstreamFailed(f"Qdrant failed: {_line(error)}") from error
    except ValueError as error:
        # The in-process engine raises ValueError for everything; only the message names the cause.
        if str(error).startswith("Collection ") and str(error).endswith(" not found"):
            raise unknown(asked) from error
        raise UpstreamFailed(f"Qdrant's answer could not be used: {_line(error)}") from error
    except (AssertionError, TypeError, RuntimeError) as error:
        # The client asserts that an answer has a result, and raises RuntimeError once it is closed.
        raise UpstreamFailed(f"Qdrant's answer could not be used: {_line(error)}") from error


def unknown(asked: str) -> UnknownCollection:
    """Returns the error for a collection that does not exist."""
    return UnknownCollection(f"There is no collection {asked} here; begin it first.")


def _of_status(error: UnexpectedResponse, asked: str, writes: bool) -> ProblemError:
    match error.status_code:
        case 404:
            return unknown(asked)
        case 401 | 403:
            return UpstreamFailed(_WRITING_KEY_REFUSED if writes else _READING_KEY_REFUSED)
        case 409:
            return Conflict(f"Qdrant has {asked} already.")
        case 408 | 504:
            return DeadlineExceeded("Qdrant did not answer in time; send a larger X-Deadline-Ms.")
        case 429:
            return Overloaded("Qdrant refuses more requests; try again after the seconds in Retry-After.")
        case 502 | 503:
            return Unavailable(f"Qdrant is not available now (HTTP {error.status_code}); try again.")
        case status:
            return UpstreamFailed(f"Qdrant answered with HTTP {status}: {_line(error)}")


def _of_source(source: Exception) -> ProblemError:
    match source:
        case httpx.ReadTimeout() | httpx.WriteTimeout() | httpx.PoolTimeout():
            return DeadlineExceeded("Qdrant did not answer in time; send a larger X-Deadline-Ms.")
        case httpx.TransportError() | OSError():
            # The client's own message has the server's address, and anybody reads /readyz.
            reason = certificate_fault(source) or type(source.__cause__ or source).__name__
            return Unavailable(
                f"Qdrant cannot be reached ({reason}). Is it running at QDRANT_URL, and is its certificate signed by "
                "the authority in QDRANT_CA_FILE?"
            )
        case _:
            return UpstreamFailed(f"Qdrant's answer could not be read: {_line(source)}")


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300].rstrip(".") or type(error).__name__
