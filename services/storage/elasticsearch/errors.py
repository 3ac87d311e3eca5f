"""Maps every error of a call of Elasticsearch to a problem that states what to do. No other module does."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import ValidationError
from pydantic_core import from_json

from services.chassis.calls.transport import NotTrusted, TransportError
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
# The settings that change our names, for messages.
PREFIXES = "set another prefix (LEXICAL_INDEX_PREFIX, or a setting such as DENSE_PREFIX)"
_NODE_LOST = ("node_disconnected_exception", "node_not_connected_exception")
_NAME_TAKEN = ("invalid_alias_name_exception", "invalid_index_name_exception")

_READING_KEY = "ELASTICSEARCH_SEARCH_API_KEY, or ELASTICSEARCH_API_KEY where that is not set"
_WRITING_KEY = "ELASTICSEARCH_API_KEY"
# Matches the part of a refusal that is cut: callers must not see the id of our key or its owner.
_WHOSE_KEY = re.compile(r" for (API key id \[[^\]]*\] of )?user \[[^\]]*\]")


class RefusedByElasticsearch(Exception):
    """An answer of another status than 2xx, and the root cause that it names."""

    def __init__(self, status: int, cause: Cause) -> None:
        super().__init__(f"{status} {cause.summary}")
        self.status = status
        self.cause = cause

    @property
    def is_node_lost(self) -> bool:
        """Whether a server of the cluster was lost while it worked on the call."""
        return self.cause.type in _NODE_LOST


@contextmanager
def elasticsearch_errors(generation: str | None = None, *, writes: bool = False) -> Iterator[None]:
    """Maps the errors of a call and of parsing its answer, most specific first.

    `writes`: the call was sent with the key that writes, which a refusal then names.
    """
    try:
        yield
    except TimeoutError as error:
        raise DeadlineExceeded("Elasticsearch did not answer in time; send a larger X-Deadline-Ms.") from error
    except NotTrusted as error:
        raise Unavailable(
            f"Elasticsearch's certificate is not trusted; check ELASTICSEARCH_CA_FILE: {_short(str(error))}"
        ) from error
    except TransportError as error:
        raise Unavailable("Elasticsearch cannot be reached at ELASTICSEARCH_URL; is it running?") from error
    except ValidationError as error:
        raise UpstreamFailed("The server at ELASTICSEARCH_URL does not answer like Elasticsearch.") from error
    except RefusedByElasticsearch as error:
        raise _problem(error, generation, writes) from error


def unknown_collection(generation: str | None) -> UnknownCollection:
    """Returns the error for a generation that does not exist."""
    return UnknownCollection(f"There is no collection {generation or 'of that name'} here; begin it first.")


def cause_of(content: bytes) -> Cause:
    """Returns the root cause in the body of an error; that of a proxy has none."""
    try:
        error = from_json(content)["error"]
        return Cause.model_validate((error.get("root_cause") or [error])[0])
    except (AttributeError, KeyError, TypeError, ValueError):
        return Cause(type=_short(content.decode(errors="replace")))


def _problem(error: RefusedByElasticsearch, generation: str | None, writes: bool) -> ProblemError:
    key = _WRITING_KEY if writes else _READING_KEY
    reason = error.cause.summary
    match error.status:
        case 400:
            return _bad_request_problem(error.cause)
        case 401:
            verb = "write" if writes else "read"
            return Unavailable(f"Elasticsearch refuses the key to {verb} with; check {key}.")
        case 403:
            needs = f"services/lexical/README.md lists what {key} needs"
            return Unavailable(f"Elasticsearch does not let this key do that ({needs}): {_WHOSE_KEY.sub('', reason)}")
        case 404:
            return unknown_collection(generation)
        case 409:
            return Conflict(f"Elasticsearch is changing this at the same time; try again: {reason}")
        case 429:
            return Overloaded("Elasticsearch is overloaded; try again after the seconds in Retry-After.")
        case 408 | 504:
            return DeadlineExceeded("Elasticsearch did not finish in time; send a larger X-Deadline-Ms.")
        case 502 | 503:
            return Unavailable(f"Elasticsearch is not ready: {reason}")
        case status:
            return UpstreamFailed(f"Elasticsearch answered {status}: {reason}")


def _bad_request_problem(cause: Cause) -> ProblemError:
    """Maps a 400: a query with too many words, a name that is taken, a closed index, or a fault of ours."""
    if "too_many" in cause.type or "too many" in cause.summary:
        return BadInput(
            "query: it has more distinct words than this Elasticsearch can look up at once "
            "(indices.query.bool.max_clause_count, which grows with its heap); send a shorter one."
        )
    if cause.type in _NAME_TAKEN:
        return Conflict(f"Something else has the name that we need; {PREFIXES}: {cause.summary}")
    if cause.type == "index_closed_exception":
        return Conflict("The index of this collection is closed; open it in Elasticsearch, or remove it there.")
    return UpstreamFailed(f"Elasticsearch refused our request: {cause.summary}")


def _short(text: str) -> str:
    return " ".join(text.split())[:MOST_SUMMARY]
