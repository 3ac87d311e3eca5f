"""What Elasticsearch and its client say goes wrong, as problems that say what to do. The one place that maps them."""

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
from services.lexical.elasticsearch_answers import MOST_SAID, Cause

GONE = "index_not_found_exception"
_NAME_TAKEN = ("invalid_alias_name_exception", "invalid_index_name_exception")


@contextmanager
def elasticsearch_errors(generation: str | None = None) -> Iterator[None]:
    """Around every call of the client and the parsing of its answer, most specific first."""
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
        raise Unavailable("Elasticsearch refuses the key; check ELASTICSEARCH_API_KEY.") from error
    except AuthorizationException as error:
        needs = "services/lexical/README.md lists what a key needs"
        raise Unavailable(f"Elasticsearch does not let this key do that ({needs}): {reason_of(error)}") from error
    except NotFoundError as error:
        raise unknown(generation) from error
    except ConflictError as error:
        raise Conflict(f"Elasticsearch is changing this at the same time; try again: {reason_of(error)}") from error
    except BadRequestError as error:
        raise _refused(error) from error
    except ApiError as error:
        raise _failed(error) from error


def unknown(generation: str | None) -> UnknownCollection:
    """For a generation that is not there."""
    return UnknownCollection(f"There is no collection {generation or 'of that name'} here; begin it first.")


def refuse_failed(errors: Iterable[Cause | None]) -> None:
    """Raises when a document could not be read: it is not a missing one."""
    for error in errors:
        if error is not None:
            raise unknown(None) if error.type == GONE else UpstreamFailed(f"A document cannot be read: {error.said}")


def reason_of(error: ApiError) -> str:
    """What the answer says, in one line."""
    return cause_of(error).said


def cause_of(error: ApiError) -> Cause:
    """The root cause in an error's body; bodies of proxies have none."""
    body = error.body
    try:
        return Cause.model_validate(body["error"]["root_cause"][0])
    except (KeyError, IndexError, TypeError, ValidationError):
        return Cause(type=str(error.message), reason=None)


def _refused(error: BadRequestError) -> ProblemError:
    """A 400: of a query that is too much for the server, of a name that is taken, or of our making."""
    cause = cause_of(error)
    if "too_many" in cause.type or "too many" in cause.said:
        return BadInput(
            "query: it has more distinct words than this Elasticsearch can look up at once "
            "(indices.query.bool.max_clause_count, which grows with its heap); send a shorter one."
        )
    if cause.type in _NAME_TAKEN:
        return Conflict(
            f"What is not ours has the name that we need; set LEXICAL_INDEX_PREFIX to a name of its own: {cause.said}"
        )
    if cause.type == "index_closed_exception":
        return Conflict("The index of this collection is closed; open it in Elasticsearch, or remove it there.")
    return UpstreamFailed(f"Elasticsearch refused what we asked: {cause.said}")


def _failed(error: ApiError) -> ProblemError:
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
    return " ".join(text.split())[:MOST_SAID]
