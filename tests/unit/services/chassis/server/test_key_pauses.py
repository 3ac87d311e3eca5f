"""Wrong keys on one connection: each is answered later than the one before, and right keys are not held back."""

import time
from collections.abc import Callable

import pytest

from services.chassis.server import http_protocol
from services.chassis.server.connections import ConnectionBounds
from services.chassis.server.http_protocol import KEY_PAUSE_S, MOST_KEY_PAUSE_S, KeyPause
from tests.support.callers import Caller, callers
from tests.support.keyed_app import keyed_settings, small_app
from tests.support.keys import Keys, bearing, typed
from tests.support.served import bounded, port_of


def asked(secret: str, path: str = "/page", carrying: Callable[[str], dict[str, str]] = bearing) -> bytes:
    header = carrying(secret)["authorization"]
    return f"GET {path} HTTP/1.1\r\nHost: small\r\nAuthorization: {header}\r\n\r\n".encode()


def timed(caller: Caller, request: bytes) -> tuple[int, float]:
    """Sends a request, and returns the status of its answer and the seconds until it."""
    began = time.monotonic()
    return caller.send(request).answer()[0], time.monotonic() - began


def slowed(caller: Caller, number: int = 4) -> None:
    """Sends wrong keys, until the next one would wait for 0.8 s."""
    for _ in range(number):
        assert timed(caller, asked("rsk_wrong"))[0] == 401


@pytest.mark.parametrize("carrying", [bearing, typed], ids=["sent", "typed"])
def test_each_wrong_key_on_a_connection_is_answered_later_than_the_one_before(
    port: int, keys: Keys, carrying: Callable[[str], dict[str, str]]
) -> None:
    with callers(port, 1) as (caller,):
        begun, ends = time.monotonic(), []
        for secret in ("rsk_wrong", keys.secrets["expired"], keys.secrets["revoked"], "another"):
            assert caller.send(asked(secret, carrying=carrying)).answer()[0] == 401
            ends.append(time.monotonic())
    # Times between two answers would depend on how late this thread read the first.
    assert [end - begun > least for end, least in zip(ends[1:], (0.09, 0.29, 0.69), strict=True)] == [True] * 3


def test_a_right_key_after_wrong_ones_is_answered_at_once_and_shortens_their_pause(port: int, keys: Keys) -> None:
    with callers(port, 1) as (caller,):
        slowed(caller)
        status, took_s = timed(caller, asked(keys.secrets["search"]))
        assert (status, took_s < 0.4) == (200, True)
        begun = time.monotonic()
        wrong_s = [timed(caller, asked("rsk_wrong"))[1] for _ in range(3)]
        assert time.monotonic() - begun > 0.29
    assert wrong_s[0] < 0.4
    assert sum(wrong_s) < 0.8


@pytest.mark.parametrize(("path", "expected"), [("/livez", 200), ("/page", 401)])
def test_what_brings_no_key_is_answered_at_once(port: int, path: str, expected: int) -> None:
    with callers(port, 1) as (caller,):
        slowed(caller)
        status, took_s = timed(caller, f"GET {path} HTTP/1.1\r\nHost: small\r\n\r\n".encode())
    assert (status, took_s < 0.4) == (expected, True)


def test_requests_sent_in_one_go_are_answered_in_their_order(port: int, keys: Keys) -> None:
    right, wrong = asked(keys.secrets["search"]), asked("rsk_wrong")
    with callers(port, 1) as (caller,):
        caller.send(wrong + right + wrong)
        assert [caller.answer()[0] for _ in range(3)] == [401, 200, 401]


def test_the_body_of_a_request_that_is_held_back_is_not_taken_for_another_one(port: int, keys: Keys) -> None:
    content = b"GET /page HTTP/1.1\r\n\r\n" * 20_000
    head = b"POST /page HTTP/1.1\r\nHost: small\r\nAuthorization: Bearer rsk_wrong\r\nContent-Length: %d\r\n\r\n"
    with callers(port, 1) as (caller,):
        for _ in range(3):
            caller.send(head % len(content), content)
            assert caller.answer()[0] == 401
        assert caller.send(asked(keys.secrets["search"])).answer()[0] == 200


def test_a_connection_that_is_held_back_makes_room_for_a_new_one(keys: Keys) -> None:
    app = small_app(keyed_settings(keys))
    with bounded(app, ConnectionBounds(most=1)) as server, callers(port_of(server), 1) as (held,):
        slowed(held)
        held.send(asked("rsk_wrong"))
        with callers(port_of(server), 1) as (other,):
            status, took_s = timed(other, asked(keys.secrets["search"]))
        assert (status, took_s < 0.4) == (200, True)
        assert held.received() == b""


def test_a_caller_that_leaves_while_it_is_held_back_leaves_nothing(keys: Keys) -> None:
    app = small_app(keyed_settings(keys))
    with bounded(app, ConnectionBounds()) as server:
        with callers(port_of(server), 1) as (caller,):
            slowed(caller, 3)
            caller.send(asked("rsk_wrong"))
        with callers(port_of(server), 1) as (other,):
            time.sleep(0.5)
            assert timed(other, asked(keys.secrets["search"]))[0] == 200
            assert len(server.server_state.connections) == 1


def test_a_connection_with_hundreds_of_wrong_keys_is_still_answered(
    keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "KEY_PAUSE_S", 1e-9)
    monkeypatch.setattr(http_protocol, "MOST_KEY_PAUSE_S", 1e-6)
    with (
        bounded(small_app(keyed_settings(keys)), ConnectionBounds()) as server,
        callers(port_of(server), 1) as (caller,),
    ):
        assert {caller.send(asked("rsk_wrong", "/nowhere")).answer()[0] for _ in range(400)} == {401}


def test_the_pause_grows_to_its_most_and_begins_anew_after_a_quiet_time() -> None:
    pause, now = KeyPause(), 100.0
    waits = []
    for _ in range(8):
        now += pause.wait_s(now)
        pause.note_wrong(now)
        waits.append(round(pause.wait_s(now), 6))
    assert waits == [KEY_PAUSE_S, 0.2, 0.4, 0.8, 1.6, MOST_KEY_PAUSE_S, MOST_KEY_PAUSE_S, MOST_KEY_PAUSE_S]
    now += 2 * MOST_KEY_PAUSE_S + 0.001
    pause.note_wrong(now)
    assert round(pause.wait_s(now), 6) == KEY_PAUSE_S
