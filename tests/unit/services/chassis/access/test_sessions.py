"""Who has logged in: how long sessions last, and how many a key has."""

import pytest

from services.chassis.access.sessions import LASTS_S, MOST_OF_A_KEY, Sessions


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


SESSION = Sessions("small", 0).cookie  # its name


def cookie(value: str) -> str:
    return f"{SESSION}={value}"


def test_many_logins_by_one_key_end_its_own_oldest_sessions_alone() -> None:
    sessions = Sessions("small", 0)
    other, oldest = sessions.begin("other"), sessions.begin("busy")
    kept = [sessions.begin("busy") for _ in range(MOST_OF_A_KEY)]
    for _ in range(1_001):
        sessions.begin("another")
    assert sessions.key_id(cookie(other)) == "other"
    assert sessions.key_id(cookie(oldest)) is None
    assert {sessions.key_id(cookie(value)) for value in kept} == {"busy"}


def test_a_session_that_was_ended_makes_room_for_another_one() -> None:
    sessions = Sessions("small", 0)
    first, second = sessions.begin("a"), sessions.begin("a")
    sessions.end(cookie(second))
    assert sessions.key_id(cookie(second)) is None
    for _ in range(MOST_OF_A_KEY - 1):
        sessions.begin("a")
    assert sessions.key_id(cookie(first)) == "a"


def test_sessions_that_are_over_are_not_kept() -> None:
    clock = Clock()
    sessions = Sessions("small", 0, clock)
    early = [sessions.begin(f"key {number}") for number in range(1_000)]
    clock.now = LASTS_S
    late = sessions.begin("late")
    assert sessions.key_id(cookie(early[0])) is None
    assert sessions.key_id(cookie(late)) == "late"
    assert len(sessions) == 1


@pytest.mark.parametrize("foreign", ["a b=c", '{"json": "1,2"}', "x[0]=1", 'q="open', "=", ";;", "café=1"])
def test_a_session_is_found_beside_an_odd_cookie_of_somebody_else(foreign: str) -> None:
    sessions = Sessions("small", 0)
    own = cookie(sessions.begin("a"))
    assert sessions.key_id(f"{foreign}; {own}") == "a"
    assert sessions.key_id(f"{own}; {foreign}") == "a"


def test_two_processes_of_a_service_on_one_host_have_cookies_of_their_own_that_a_restart_keeps() -> None:
    names = [Sessions(service, port).cookie for service in ("gateway", "evaluator") for port in (8000, 8001, 8000)]
    assert len(set(names)) == 4
