"""What callers without a key may send: no body, to no route."""

import contextlib

import pytest

from services.chassis.requests import body
from tests.support.callers import Caller, callers
from tests.support.keys import Keys

OPEN = [("POST", "/livez"), ("PUT", "/readyz"), ("GET", "/livez"), ("DELETE", "/metrics"), ("GET", "/style.css")]
SIZE = 8_000_000


def head(method: str, path: str, *lines: str, media: str = "application/x-www-form-urlencoded") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: small", f"Content-Type: {media}", *lines, "", ""]).encode()


def chunk(size: int) -> bytes:
    return b"%x\r\n%b\r\n" % (size, b"x" * size)


@pytest.mark.parametrize(("method", "path"), OPEN)
def test_a_large_body_without_a_key_is_refused_before_it_arrives(port: int, method: str, path: str) -> None:
    with callers(port, 1) as (caller,):
        status, told = caller.send(head(method, path, f"Content-Length: {SIZE}")).answer()
    assert status == 413
    assert b"body-too-large" in told


@pytest.mark.parametrize(("method", "path"), OPEN)
def test_a_body_of_unknown_size_without_a_key_is_refused_when_it_is_too_large(
    port: int, method: str, path: str
) -> None:
    with callers(port, 1) as (caller,):
        caller.send(head(method, path, "Transfer-Encoding: chunked"), chunk(1))
        assert caller.answer()[0] == 413


@pytest.mark.parametrize("length", ["Content-Length: 1", "Transfer-Encoding: chunked"])
def test_a_probe_waits_for_no_body(port: int, length: str) -> None:
    with callers(port, 1) as (caller,):
        assert caller.send(head("GET", "/livez", length)).answer()[0] == 413


@pytest.mark.parametrize("length", ["Content-Length: 0", "X-Other: 0"])
def test_a_probe_without_a_body_is_answered(port: int, length: str) -> None:
    with callers(port, 1) as (caller,):
        assert caller.send(head("GET", "/livez", length)).answer()[0] == 200


def test_bodies_without_a_key_leave_the_room_for_bodies_to_those_with_one(
    port: int, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body, "MOST_TOTAL_BYTES", 1_000_000)
    with callers(port, 1) as (right,), callers(port, len(OPEN) + 1) as strangers:
        for stranger, (method, path) in zip(strangers, [*OPEN, ("POST", "/v1/collections/c/search")], strict=True):
            stranger.send(head(method, path, f"Content-Length: {SIZE}"), b"x" * 900_000)
        for stranger in strangers:
            taken(stranger)
        found = b'{"query": "%b"}' % (b"x" * 500_000)
        lines = (f"Content-Length: {len(found)}", f"Authorization: Bearer {keys.secrets['search']}")
        asked = head("POST", "/v1/collections/c/search", *lines, media="application/json")
        assert right.send(asked, found).answer()[0] == 200


def taken(caller: Caller) -> None:
    """Waits until the other side answers, or has had the time to take what was sent."""
    caller.socket.settimeout(0.2)
    with contextlib.suppress(TimeoutError):
        caller.socket.recv(1)
