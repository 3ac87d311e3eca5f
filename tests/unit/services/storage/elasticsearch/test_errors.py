"""Every exception of the Elasticsearch client becomes a problem of ours."""

import inspect

import elastic_transport
import elasticsearch
import elasticsearch.exceptions
import pytest
from elastic_transport import ApiResponseMeta, HttpHeaders, NodeConfig

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
from services.storage.elasticsearch.errors import elasticsearch_errors

FOREIGN = sorted(
    {
        one
        for module in (elastic_transport, elasticsearch, elasticsearch.exceptions)
        for _, one in inspect.getmembers(module, inspect.isclass)
        if issubclass(one, Exception) and not issubclass(one, Warning)
    },
    key=lambda one: f"{one.__module__}.{one.__name__}",
)


def raised(kind: type[Exception], status: int = 418, body: object = None) -> Exception:
    if issubclass(kind, elastic_transport.ApiError):
        node = NodeConfig("http", "localhost", 9200)
        meta = ApiResponseMeta(status, "1.1", HttpHeaders(), 0.1, node)
        return kind("said", meta, body)
    return kind("said")


def problem_of(error: Exception) -> ProblemError:
    with pytest.raises(ProblemError) as caught, elasticsearch_errors("notes@1"):
        raise error
    assert caught.value.__cause__ is error
    return caught.value


def cause(kind: str, reason: str = "why") -> dict[str, object]:
    return {"error": {"type": kind, "reason": "all", "root_cause": [{"type": kind, "reason": reason}]}, "status": 400}


def test_the_library_still_has_the_exceptions_that_we_know() -> None:
    assert len(FOREIGN) >= 12


@pytest.mark.parametrize("kind", FOREIGN, ids=lambda kind: kind.__name__)
def test_every_exception_is_mapped(kind: type[Exception]) -> None:
    problem = problem_of(raised(kind))
    assert type(problem) is not ProblemError
    assert problem.detail


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (raised(elasticsearch.ConnectionTimeout), DeadlineExceeded),
        (raised(elasticsearch.ConnectionError), Unavailable),
        (raised(elasticsearch.SSLError), Unavailable),
        (raised(elasticsearch.SerializationError), UpstreamFailed),
        (raised(elasticsearch.NotFoundError, 404), UnknownCollection),
        (raised(elasticsearch.ConflictError, 409), Conflict),
        (raised(elasticsearch.AuthenticationException, 401), Unavailable),
        (raised(elasticsearch.AuthorizationException, 403), Unavailable),
        (raised(elasticsearch.BadRequestError, 400, cause("too_many_nested_clauses")), BadInput),
        (raised(elasticsearch.BadRequestError, 400, cause("illegal_argument_exception", "too many clauses")), BadInput),
        (raised(elasticsearch.BadRequestError, 400, cause("invalid_alias_name_exception")), Conflict),
        (raised(elasticsearch.BadRequestError, 400, "<html>"), UpstreamFailed),
        (raised(elasticsearch.ApiError, 429), Overloaded),
        (raised(elasticsearch.ApiError, 503, cause("cluster_block_exception")), Unavailable),
        (raised(elasticsearch.ApiError, 504), DeadlineExceeded),
        (raised(elasticsearch.ApiError, 500, cause("null_pointer_exception")), UpstreamFailed),
    ],
)
def test_the_most_specific_problem_wins(error: Exception, expected: type[ProblemError]) -> None:
    assert type(problem_of(error)) is expected


def test_the_certificate_and_the_key_are_named() -> None:
    assert "ELASTICSEARCH_CA_FILE" in problem_of(raised(elasticsearch.SSLError)).detail
    assert "ELASTICSEARCH_API_KEY" in problem_of(raised(elasticsearch.AuthenticationException, 401)).detail
