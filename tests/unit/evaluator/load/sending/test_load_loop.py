"""The load loop against queueing theory, in virtual time."""

from collections.abc import Sequence
from itertools import pairwise

import pytest

from evaluator.load.sending.load_loop import SendRecord, closed_loop, open_loop
from evaluator.load.sending.traffic import arrival_times
from tests.support.virtual_time import QueueingServer, StallingServer, VirtualClock, in_virtual_time

SERVICE_S = 0.01


def lindley(planned: Sequence[float], service_s: float) -> list[float]:
    """Returns the waits of a queue with one server (Lindley 1952): W' = max(0, W + S - A)."""
    waits = [0.0]
    for earlier, later in pairwise(planned):
        waits.append(max(0.0, waits[-1] + service_s - (later - earlier)))
    return waits


def planned(rate: float, count: int) -> list[float]:
    return arrival_times(rate, 1.2 * count / rate, "poisson", "theory")[:count]


def sent(times: Sequence[float], service_s: float = SERVICE_S, most: int = 100_000) -> list[SendRecord]:
    async def work() -> list[SendRecord]:
        return await open_loop(times, QueueingServer(service_s), VirtualClock(), most)

    return sorted(in_virtual_time(work()))


@pytest.mark.parametrize("load", [0.5, 0.8, 0.9])
def test_each_wait_equals_lindleys_recursion_on_the_planned_arrivals(load: float) -> None:
    times = planned(load / SERVICE_S, 2_000)
    waits = [record.done_s - record.planned_s - SERVICE_S for record in sent(times)]
    assert waits == pytest.approx(lindley(times, SERVICE_S), abs=1e-6)


@pytest.mark.parametrize(("load", "count"), [(0.5, 50_000), (0.8, 200_000)])
def test_planned_arrivals_give_the_mean_wait_of_an_m_d_1_queue(load: float, count: int) -> None:
    waits = lindley(planned(load / SERVICE_S, count), SERVICE_S)
    theory = load * SERVICE_S / (2 * (1 - load))
    assert sum(waits) / len(waits) == pytest.approx(theory, rel=0.05)


def test_a_stall_delays_every_request_that_was_planned_within_it() -> None:
    times = planned(100.0, 2_000)

    async def opened() -> list[SendRecord]:
        return await open_loop(times, StallingServer(0.001), VirtualClock(), 100_000)

    async def closed() -> list[SendRecord]:
        return await closed_loop(1, 20.0, StallingServer(0.001), VirtualClock())

    def delayed(records: list[SendRecord]) -> int:
        return sum(record.done_s - record.planned_s > 0.002 for record in records)

    assert delayed(in_virtual_time(opened())) / len(times) == pytest.approx(0.1, abs=0.02)
    assert delayed(in_virtual_time(closed())) == 2


def test_requests_above_the_cap_are_dropped_and_have_no_reply() -> None:
    records = sent([0.0, 0.001, 0.002, 0.5], most=2)
    assert [record.reply is None for record in records] == [False, False, True, False]
    assert records[2].sent_s is None


def test_a_closed_loop_keeps_so_many_in_flight_until_its_time_has_passed() -> None:
    async def work() -> list[SendRecord]:
        return await closed_loop(4, 1.0, QueueingServer(SERVICE_S), VirtualClock())

    records = in_virtual_time(work())
    assert len(records) == pytest.approx(100, abs=4)
    assert {record.number for record in records} == set(range(len(records)))
    # Each waits for the three before it.
    assert [record.done_s - record.planned_s for record in records[4:]] == pytest.approx(
        [4 * SERVICE_S] * (len(records) - 4)
    )
