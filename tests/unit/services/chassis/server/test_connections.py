"""Checks the bounds of connections on the server that our processes run, over real sockets."""

import json
import signal
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import httpx
import pytest

from services.chassis.server.connections import ConnectionBounds
from services.chassis.server.serve import DrainingServer
from services.chassis.settings.service_settings import ServiceSettings
from tests.support.callers import Caller, callers, wait_for
from tests.support.certificates import Certificates
from tests.support.chassis_app import small_app
from tests.support.served import bounded, port_of

SHORT = ConnectionBounds(head_s=0.5, idle_s=0.8, unread_grace_s=0.5, unread_bytes_s=100_000_000, linger_s=0.5)


Connect = Callable[[int], AbstractContextManager[list[Caller]]]
Serve = Callable[[ConnectionBounds], AbstractContextManager[tuple[DrainingServer, Connect]]]


@pytest.fixture(scope="module", params=["plain", "tls"])
def serve(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Serve:
    """What serves the app with bounds, and yields what connects to it: the bounds are the same under TLS."""
    settings, context = ServiceSettings(port=0), None
    if request.param == "tls":
        made = Certificates(tmp_path_factory.mktemp("certificates"))
        settings, context = ServiceSettings(port=0, **made.issue().settings), made.context

    @contextmanager
    def serve(bounds: ConnectionBounds) -> Iterator[tuple[DrainingServer, Connect]]:
        with bounded(small_app(settings), bounds, settings=settings) as server:
            yield server, lambda number: callers(port_of(server), number, context)

    return serve


@pytest.fixture(scope="module")
def connect(serve: Serve) -> Iterator[Connect]:
    with serve(SHORT) as (_, connect):
        yield connect


ECHO = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
LIVEZ = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"
REFUSED = {
    "a URL of 9,000 bytes": (b"GET /livez?" + b"a" * 9_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414, "url-too-long"),
    "a header of 40,000 bytes": (b"GET /livez HTTP/1.1\r\nA: " + b"a" * 40_000 + b"\r\n\r\n", 431, "headers-too-large"),
    "200 headers": (b"GET /livez HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n", 431, "headers-too-large"),
    "empty lines": (b"\r\n" * 40_000, 431, "headers-too-large"),
    "a websocket": (
        b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        400,
        "malformed",
    ),
    "another protocol with a body": (
        b"POST /echo HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\n{}",
        400,
        "malformed",
    ),
    "no HTTP at all": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"a" * 500, 400, "malformed"),
    "trailers of 400,000 bytes": (
        b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"2\r\n{}\r\n0\r\nA: " + b"a" * 400_000,
        431,
        "headers-too-large",
    ),
    "half a request": (b"GET /livez HTTP/1.1\r\nHost:", 408, "request-timeout"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_request_outside_the_bounds_is_answered_with_a_problem_and_closed(connect: Connect, name: str) -> None:
    sent, status, kind = REFUSED[name]
    with connect(1) as (caller,):
        head, _, body = caller.send(sent).received().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), head
    problem = json.loads(body)
    assert problem["type"] == f"urn:problem:{kind}"
    assert f"x-request-id: {problem['request_id']}" in head.decode()
    assert b"connection: close" in head


def test_a_request_within_the_bounds_is_served_however_it_is_split(connect: Connect) -> None:
    asked = b"GET /headers HTTP/1.1\r\nHost: a\r\nB: " + b"b" * 30_000 + b"\r\n\r\n"
    with connect(1) as (caller,):
        for size in (1_000, 10_000, len(asked)):
            caller.send(*(asked[place : place + size] for place in range(0, len(asked), size)))
            status, body = caller.answer()
            assert (status, len(json.loads(body)["b"])) == (200, 30_000)


def test_a_request_that_offers_an_upgrade_is_served_as_http_1_1(connect: Connect) -> None:
    with connect(1) as (caller,):
        caller.send(b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
        assert caller.received().startswith(b"HTTP/1.1 200 ")


def test_an_idle_connection_is_kept_and_closed_in_the_end(connect: Connect) -> None:
    with connect(1) as (caller,):
        caller.send(LIVEZ)
        assert caller.answer()[0] == 200
        time.sleep(0.4)
        caller.send(LIVEZ)
        assert caller.answer()[0] == 200
        assert caller.received() == b""


def test_a_slow_head_on_a_kept_connection_is_ended_too(connect: Connect) -> None:
    with connect(1) as (caller,):
        caller.send(LIVEZ)
        assert caller.answer()[0] == 200
        started = time.monotonic()
        for letter in LIVEZ * 3:
            caller.send(bytes([letter]))
            time.sleep(0.05)
            if time.monotonic() - started > 0.9:
                break
        assert caller.received().startswith(b"HTTP/1.1 408 ")


def test_a_body_that_never_ends_after_its_refusal_does_not_keep_the_connection(connect: Connect) -> None:
    with connect(1) as (caller,):
        caller.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 90000000\r\n\r\n", b"a" * 1_000)
        assert caller.answer()[0] == 413
        started = time.monotonic()
        while time.monotonic() - started < 5.0:
            try:
                caller.socket.sendall(b"a" * 1_000)
            except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
                break
            time.sleep(0.05)
        assert time.monotonic() - started < 3.0


def thrown_away(server: DrainingServer) -> float:
    """Returns the number of connections ended because of an unread answer."""
    registry = server.server_state.instruments.registry
    return registry.get_sample_value("http_connections_ended_total", {"reason": "unread-answer"}) or 0.0


def test_an_unread_answer_is_dropped(serve: Serve) -> None:
    impatient = ConnectionBounds(unread_grace_s=0.5, unread_bytes_s=100_000_000)
    with serve(impatient) as (server, connect), connect(1) as (caller,):
        caller.send(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
        wait_for(lambda: thrown_away(server) == 1, within_s=5.0)
        wait_for(lambda: not server.server_state.connections, within_s=5.0)


@pytest.mark.parametrize("more", [b"", b"Connection: close\r\n"], ids=["kept", "closed"])
def test_an_answer_that_is_read_slowly_enough_arrives_whole(serve: Serve, more: bytes) -> None:
    slow = ConnectionBounds(idle_s=0.5, unread_grace_s=0.5, unread_bytes_s=2_000_000)
    with serve(slow) as (_, connect), connect(1) as (caller,):
        caller.send(b"GET /large HTTP/1.1\r\nHost: a\r\n" + more + b"\r\n")
        time.sleep(0.8)
        assert len(caller.received()) > 20_000_000


def test_the_total_of_unread_answers_is_bounded(serve: Serve) -> None:
    patient = ConnectionBounds(unread_bytes=30_000_000)
    with serve(patient) as (server, connect), connect(4) as made:
        for caller in made:
            caller.send(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
        wait_for(lambda: thrown_away(server) == 3, within_s=5.0)
        wait_for(lambda: len(server.server_state.connections) == 1, within_s=5.0)


def test_pipelined_requests_are_bounded_and_those_before_the_bound_are_answered(connect: Connect) -> None:
    with connect(1) as (caller,):
        answers = caller.send(LIVEZ * 5_000).received().count(b"HTTP/1.1 200 ")
    assert 16 <= answers <= 20


def test_above_the_bound_connections_without_a_request_are_closed_first(serve: Serve) -> None:
    with serve(ConnectionBounds(most=20)) as (server, connect), connect(1) as (served,):
        served.send(LIVEZ)
        assert served.answer()[0] == 200
        with connect(300):
            with connect(1) as (newest,):
                newest.send(LIVEZ)
                assert newest.answer()[0] == 200
            served.send(LIVEZ)
            assert served.answer()[0] == 200
            wait_for(lambda: len(server.server_state.connections) <= 21, within_s=5.0)


def test_when_all_connections_are_busy_probes_are_served_and_others_refused(serve: Serve) -> None:
    upload = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{"
    with serve(ConnectionBounds(most=10, reserve=2)) as (server, connect), connect(10) as made:
        for caller in made:
            caller.send(upload)
        wait_for(lambda: len(server.server_state.tasks) == 10, within_s=5.0)
        with connect(1) as (newest,):
            newest.send(LIVEZ)
            assert newest.answer()[0] == 200
            newest.send(b"GET /headers HTTP/1.1\r\nHost: a\r\n\r\n")
            head, _, body = newest.received().partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 429 ")  # a 503 would open breakers of gateways
            assert b"retry-after: 1" in head
            assert "too many connections" in json.loads(body)["detail"]


def test_trailers_of_a_body_are_not_headers(connect: Connect) -> None:
    with connect(1) as (caller,):
        caller.send(
            b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
            b'e\r\n{"query": "a"}\r\n0\r\nContent-Type: application/json\r\n\r\n'
        )
        assert caller.answer()[0] == 415


def test_callers_leave_their_connections_while_the_process_drains() -> None:
    settings = ServiceSettings(port=0, drain_s=3)
    with (
        bounded(small_app(settings), ConnectionBounds(), settings=settings) as server,
        httpx.Client(base_url=f"http://127.0.0.1:{port_of(server)}") as client,
    ):
        assert "connection" not in client.get("/livez").headers
        server.handle_exit(signal.SIGTERM, None)
        assert client.get("/livez").headers["connection"] == "close"


def test_a_draining_process_answers_no_request_behind_the_answer_that_says_close() -> None:
    settings = ServiceSettings(port=0, drain_s=60)
    with (
        bounded(small_app(settings), SHORT, settings=settings) as server,
        callers(port_of(server), 3) as (one, other, refused),
    ):
        server.handle_exit(signal.SIGTERM, None)
        one.send(LIVEZ * 3)
        assert one.received().count(b"HTTP/1.1 200 ") == 1
        body = b'{"query": "a"}'
        other.send(ECHO % len(body), body[:5]).send(body[5:], LIVEZ)
        assert other.received().count(b"HTTP/1.1 200 ") == 1
        refused.send(LIVEZ.replace(b"a", b"evil.example") * 3)
        assert refused.received().count(b"HTTP/1.1 ") == 1
        server.handle_exit(signal.SIGTERM, None)
