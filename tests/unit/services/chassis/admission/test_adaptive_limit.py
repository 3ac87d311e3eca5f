"""The limit grows while requests end in time and others wait, and shrinks where they meet overload."""

from services.chassis.admission.limits import SLOW_SHARE, AdaptiveLimit

HAD_S = 1.0


def ended(limit: AdaptiveLimit, took_s: float, times: int, *, others_wait: bool = True, from_s: float = 0.0) -> None:
    for number in range(times):
        limit.ended(
            took_s, 1.0, from_s + number * took_s, overloaded=took_s > SLOW_SHARE * HAD_S, others_wait=others_wait
        )


def test_it_grows_while_others_wait_up_to_its_most() -> None:
    limit = AdaptiveLimit(2.0, 4.0)
    ended(limit, 0.01, 100, others_wait=False)
    assert limit.value == 2.0
    ended(limit, 0.01, 2)
    assert 2.5 < limit.value < 3.0
    ended(limit, 0.01, 100, from_s=1.0)
    assert limit.value == 4.0


def test_slow_requests_shrink_it_once_for_all_that_were_in_flight() -> None:
    limit = AdaptiveLimit(10.0, 32.0)
    ended(limit, 0.01, 1, others_wait=False)
    for at in (1.00, 1.01, 1.02):
        limit.ended(0.6, 1.0, at, overloaded=True, others_wait=True)
    assert limit.value == 9.0
    limit.ended(0.6, 1.0, 2.0, overloaded=True, others_wait=True)
    assert limit.value == 8.1
    ended(limit, 0.9, 100, from_s=5.0)
    assert limit.value == 1.0


def test_a_queue_at_a_server_of_two_cores_ends_near_half_the_time_that_requests_have() -> None:
    limit = AdaptiveLimit(2.0, 1_000.0)
    now = 0.0
    while now < 60.0:
        took_s = max(1.0, limit.value / 2) * 0.01  # processor sharing
        now += took_s / limit.value
        limit.ended(took_s, 1.0, now, overloaded=took_s > SLOW_SHARE * HAD_S, others_wait=True)
    assert 0.3 < limit.value / 2 * 0.01 < 0.55


def test_before_any_request_has_waited_the_wait_is_expected_from_what_a_request_takes() -> None:
    limit = AdaptiveLimit(2.0, 2.0)
    assert limit.expected_wait_s(100.0) == 0.0
    for number in range(50):
        limit.ended(0.1, 1.0, number * 1.0, overloaded=False, others_wait=False)
    assert abs(limit.expected_wait_s(4.0) - 0.2) < 0.001
    assert abs(limit.expected_s - 0.1) < 0.001


def test_while_others_wait_the_wait_is_expected_from_the_time_between_ends_whatever_the_limit() -> None:
    limit = AdaptiveLimit(8.0, 8.0)
    for number in range(200):
        cost = 0.5 if number % 2 else 1.5
        limit.ended(0.4, cost, number * 0.1, overloaded=number % 50 == 0, others_wait=True)
    assert abs(limit.expected_wait_s(4.0) - 0.4) < 0.02


def test_a_request_that_fewer_at_once_would_not_have_helped_does_not_shrink_it() -> None:
    limit = AdaptiveLimit(4.0, 4.0)
    limit.ended(0.9, 1.0, 5.0, overloaded=True, others_wait=True, excused=True)
    assert limit.value == 4.0
    limit.ended(0.9, 1.0, 10.0, overloaded=True, others_wait=True)
    assert limit.value < 4.0


def test_costly_requests_leave_the_pace_and_the_growth_sound() -> None:
    limit = AdaptiveLimit(8.0, 32.0)
    for number in range(40):
        limit.ended(2.0, 172.0, number * 2.0, overloaded=False, others_wait=True)
        assert 0.0 <= limit.expected_wait_s(172.0) < 40.0
    assert abs(limit.expected_wait_s(172.0) - 2.0) < 0.1
    before = limit.value
    limit.ended(2.0, 172.0, 80.0, overloaded=False, others_wait=True)
    assert limit.value <= before + 1.0
