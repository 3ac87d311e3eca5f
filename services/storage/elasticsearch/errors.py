"""Maps every error of Elasticsearch and its client to a problem that states what to do. No other module does."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from elastic_transport import ApiError, SerializationError, TlsError, TransportError
from elasticsearch import (
    AuthenticationException,
    AuthorizationException,
    BadRequestError,
    ConflictError,
    ConnectionError,
    ConnectionTimeout,
    NotFoundError,
    UnsupportedProductError,
)
from pydantic import ValidationError

from services.chassis.errors import (
    BadInput,
    Conflict,
    DeadlineExceeded,
    Overloaded,
    ProblemError,
    Unavailable,
    UnknownCollection,
    UpstreamFailed,
)
from services.storage.elasticsearch.answers import MOST_SUMMARY, Cause

# How Elasticsearch refuses an operation on an index that was removed; the second one, a write to our alias of it.
GONE = ("index_not_found_exception", "invalid_index_name_exception")
# The settings by which our names become others, for messages.
PREFIXES = "set another prefix (LEXICAL_INDEX_PREFIX, or a setting such as DENSE_PREFIX)"
_NODE_LOST = ("node_disconnected_exception", "node_not_connected_exception")
_NAME_TAKEN = ("invalid_alias_name_exception", "invalid_index_name_exception")


_READING_KEY = "ELASTICSEARCH_SEARCH_API_KEY, or ELASTICSEARCH_API_KEY where that is not set"
_WRITING_KEY = "ELASTICSEARCH_API_KEY"
# Matches the part of a refusal that is cut: callers need neither the id of our key nor the name of its maker.
_WHOSE_KEY = re.compile(r" for (API key id \[[^\]]*\] of )?user \[[^\]]*\]")


@contextmanager
def elasticsearch_errors(generation: str | None = None, *, writes: bool = False) -> Iterator[None]:
    """Maps the errors of a client's call and of parsing its answer, most specific first.

    `writes`: the call was sent with the key that writes, which a refusal then names.
    """
    key = _WRITING_KEY if writes else _READING_KEY
    try:
        yield
    except ConnectionTimeout as error:
        raise DeadlineExceeded("Elasticsearch did not answer in time; send a larger X-Deadline-Ms.") from error
    except TlsError as error:
        raise Unavailable(
            f"Elasticsearch's certificate is not trusted; check ELASTICSEARCH_CA_FILE: {_short(str(error))}"
        ) from error
    except ConnectionError as error:
        raise Unavailable("Elasticsearch cannot be reached at ELASTICSEARCH_URL; is it running?") from error
    except (SerializationError, ValidationError) as error:
        raise UpstreamFailed("What answers at ELASTICSEARCH_URL does not speak as Elasticsearch does.") from error
    except TransportError as error:
        raise Unavailable(f"Elasticsearch cannot be asked: {_short(str(error))}") from error
    except UnsupportedProductError as error:
        raise UpstreamFailed("What answers at ELASTICSEARCH_URL is not Elasticsearch.") from error
    except AuthenticationException as error:
        verb = "write" if writes else "read"
        raise Unavailable(f"Elasticsearch refuses the key to {verb} with; check {key}.") from error
    except AuthorizationException as error:
        needs = f"services/lexical/README.md lists what {key} needs"
        reason = _WHOSE_KEY.sub("", reason_of(error))
        raise Unavailable(f"Elasticsearch does not let this key do that ({needs}): {reason}") from error
    except NotFoundError as error:
        raise unknown_collection(generation) from error
    except ConflictError as error:
        raise Conflict(f"Elasticsearch is changing this at the same time; try again: {reason_of(error)}") from error
    except BadRequestError as error:
        raise _bad_request_problem(error) from error
    except ApiError as error:
        raise _status_problem(error) from error


def unknown_collection(generation: str | None) -> UnknownCollection:
    """Returns the error for a generation that does not exist."""
    return UnknownCollection(f"There is no collection {generation or 'of that name'} here; begin it first.")


def raise_failed(errors: Iterable[Cause | None]) -> None:
    """Raises for the first document that could not be read: it must not count as missing."""
    for error in errors:
        if error is not None:
            raise (
                unknown_collection(None)
                if error.type in GONE
                else UpstreamFailed(f"A document cannot be read: {error.summary}")
            )


def reason_of(error: ApiError) -> str:
    """Returns the reason of an error in one line."""
    return cause_of(error).summary


def cause_of(error: ApiError) -> Cause:
    """Returns the root cause in an error's body; the body of a proxy has none."""
    body = error.body
    try:
        return Cause.model_validate(body["error"]["root_cause"][0])
    except (KeyError, IndexError, TypeError, ValidationError):
        return Cause(type=str(error.message), reason=None)


def is_node_lost(error: ApiError) -> bool:
    """Returns whether a server of the cluster was lost while it worked on the call."""
    return cause_of(error).type in _NODE_LOST


def _bad_request_problem(error: BadRequestError) -> ProblemError:
    """Maps a 400: a query with too many words, a name that is taken, a closed index, or a fault of ours."""
    cause = cause_of(error)
    if "too_many" in cause.type or "too many" in cause.summary:
        return BadInput(
            "query: it has more distinct words than this Elasticsearch can look up at once "
            "(indices.query.bool.max_clause_count, which grows with its heap); send a shorter one."
        )
    if cause.type in _NAME_TAKEN:
        return Conflict(f"What is not ours has the name that we need; {PREFIXES}: {cause.summary}")
    if cause.type == "index_closed_exception":
        return Conflict("The index of this collection is closed; open it in Elasticsearch, or remove it there.")
    return UpstreamFailed(f"Elasticsearch refused what we asked: {cause.summary}")


def _status_problem(error: ApiError) -> ProblemError:
    match error.meta.status:
        case 429:
            return Overloaded("Elasticsearch is overloaded; try again after the seconds in Retry-After.")
        case 408 | 504:
            return DeadlineExceeded("Elasticsearch did not finish in time; send a larger X-Deadline-Ms.")
        case 502 | 503:
            return Unavailable(f"Elasticsearch is not ready: {reason_of(error)}")
        case status:
            return UpstreamFailed(f"Elasticsearch answered {status}: {reason_of(error)}")


def _short(text: str) -> str:
    return " ".join(text.split())[:MOST_SUMMARY]
