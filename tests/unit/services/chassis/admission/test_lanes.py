"""Who counts as one client, and how long a lane rests."""

import pytest

from services.chassis.admission.lanes import client_of
from services.chassis.admission.limits import MOST_REST_S, Rest


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("192.0.2.1", "192.0.2.2", False),
        ("unix:/a", "unix:/b", False),
    ],
)
def test_a_host_is_one_client_whatever_addresses_of_its_network_it_uses(one: str, other: str, same: bool) -> None:
    clients = [client_of({"type": "http", "client": (address, 1)}) for address in (one, other)]
    assert (clients[0] == clients[1]) is same


def test_work_that_hung_closes_a_lane_no_longer_than_requests_take() -> None:
    beside = iter(range(9))
    rest = Rest(lambda: next(beside), 0.25)
    assert rest.seconds_after(1.0, -1) == pytest.approx(3.0)
    assert rest.seconds_after(119.0, -1) == MOST_REST_S
