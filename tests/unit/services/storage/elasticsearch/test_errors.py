"""Every fault of a call of Elasticsearch becomes a problem of ours."""

import json

import pytest

from services.chassis.calls.transport import (
    AnswerBroken,
    ConnectionLost,
    ConnectTimedOut,
    NotConnected,
    NotTrusted,
    TransportError,
)
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
from services.storage.elasticsearch.answers import Nodes
from services.storage.elasticsearch.errors import RefusedByElasticsearch, cause_of, elasticsearch_errors


def problem_of(error: Exception, *, writes: bool = False) -> ProblemError:
    with pytest.raises(ProblemError) as caught, elasticsearch_errors("notes@1", writes=writes):
        raise error
    assert caught.value.__cause__ is error
    return caught.value


def refused(status: int, kind: str = "", reason: str = "why") -> RefusedByElasticsearch:
    error = {"type": kind, "reason": "all", "root_cause": [{"type": kind, "reason": reason}]}
    return RefusedByElasticsearch(status, cause_of(json.dumps({"error": error, "status": status}).encode()))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (TimeoutError(), DeadlineExceeded),
        (NotTrusted("self-signed"), Unavailable),
        *((kind("broken"), Unavailable) for kind in (NotConnected, ConnectTimedOut, ConnectionLost, AnswerBroken)),
        (TransportError("broken"), Unavailable),
        (refused(400, "too_many_nested_clauses"), BadInput),
        (refused(400, "illegal_argument_exception", "too many clauses"), BadInput),
        (refused(400, "invalid_alias_name_exception"), Conflict),
        (refused(400, "index_closed_exception"), Conflict),
        (RefusedByElasticsearch(400, cause_of(b"<html>")), UpstreamFailed),
        (refused(401), Unavailable),
        (refused(403), Unavailable),
        (refused(404), UnknownCollection),
        (refused(409), Conflict),
        (refused(429), Overloaded),
        (refused(503, "cluster_block_exception"), Unavailable),
        (refused(504), DeadlineExceeded),
        (refused(500, "null_pointer_exception"), UpstreamFailed),
        (refused(307), UpstreamFailed),
    ],
)
def test_every_fault_is_a_problem(error: Exception, expected: type[ProblemError]) -> None:
    assert type(problem_of(error)) is expected


def test_an_answer_of_another_shape_is_a_problem() -> None:
    with pytest.raises(UpstreamFailed, match="does not answer like Elasticsearch"), elasticsearch_errors():
        Nodes.model_validate_json(b"{}")


def test_the_certificate_and_the_key_are_named_and_whose_key_it_is_is_not() -> None:
    assert "ELASTICSEARCH_CA_FILE" in problem_of(NotTrusted("self-signed")).detail
    assert "ELASTICSEARCH_SEARCH_API_KEY" in problem_of(refused(401)).detail
    assert "check ELASTICSEARCH_API_KEY" in problem_of(refused(401), writes=True).detail
    said = "action [x] is unauthorized for API key id [7f] of user [ann] on indices [c]"
    assert problem_of(refused(403, "security_exception", said)).detail.endswith("unauthorized on indices [c]")
