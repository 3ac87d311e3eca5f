"""A lane admits requests up to its limit, lets clients take turns, and refuses at once what cannot end in time."""

import asyncio
import time
from collections.abc import Sequence

import pytest

from services.chassis.admission.limits import AdaptiveLimit, Limiter, Rest
from services.chassis.deadlines import Deadline, set_deadline
from services.chassis.errors import Overloaded
from services.chassis.instruments import Instruments
from tests.support.times import repeated_when_late, timed


def lane(slots: float = 1.0, most_waiting: int = 100) -> Limiter:
    return Limiter("work", AdaptiveLimit(slots, slots, slots), most_waiting, Instruments())


class Requests:
    """Requests to one lane, each of which holds its slot until it is released, and the order in which they began."""

    def __init__(self, limiter: Limiter) -> None:
        self.limiter = limiter
        self.began: list[str] = []
        self.go = asyncio.Event()

    async def ask(
        self, name: str, *, client: str = "", cost: float = 1.0, within_s: float = 60.0, lasts_s: float | None = None
    ) -> None:
        async with self.limiter.slot(within_s, cost=cost, client=client):
            self.began.append(name)
            await (self.go.wait() if lasts_s is None else asyncio.sleep(lasts_s))

    async def queued(self, asked: Sequence[tuple[str, str]], cost: float = 1.0) -> list[asyncio.Task[None]]:
        """Asks (client, name) in this order."""
        tasks = []
        for client, name in asked:
            tasks.append(asyncio.create_task(self.ask(name, client=client, cost=cost)))
            await asyncio.sleep(0)
        return tasks


async def learnt(limiter: Limiter, lasts_s: float) -> Requests:
    """A lane that knows how long a request takes."""
    requests = Requests(limiter)
    await requests.ask("first", lasts_s=lasts_s)
    requests.began.clear()
    return requests


async def test_what_cannot_end_in_time_is_refused_at_once_and_told_when_to_come_back() -> None:
    requests = await learnt(lane(), 0.2)
    tasks = await requests.queued([("", str(number)) for number in range(11)])
    started = time.monotonic()
    with pytest.raises(Overloaded) as refused:
        await requests.ask("late", within_s=1.0)
    assert time.monotonic() - started < 0.5
    assert refused.value.retry_after_s in (2, 3)  # ten wait, 0.2 s each and a little more
    requests.go.set()
    await asyncio.gather(*tasks)


async def test_a_request_whose_time_went_by_in_the_queue_is_refused_unworked() -> None:
    requests = await learnt(lane(), 0.1)
    holding = asyncio.create_task(requests.ask("holding"))
    await asyncio.sleep(0)
    late = asyncio.create_task(requests.ask("late", within_s=0.4))
    await asyncio.sleep(0.35)
    requests.go.set()
    await holding
    with pytest.raises(Overloaded):
        await late
    assert requests.began == ["holding"]


async def test_a_cancelled_request_leaves_the_queue_and_its_slot() -> None:
    requests = Requests(lane())
    holding, second, third = await requests.queued([("", "1"), ("", "2"), ("", "3")])
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    requests.go.set()
    await asyncio.gather(holding, third)
    async with requests.limiter.slot(1.0):
        assert requests.began == ["1", "3"]


async def test_a_request_cancelled_in_the_moment_of_its_admission_gives_the_slot_back() -> None:
    requests = Requests(lane())
    holding, second, third = await requests.queued([("", "1"), ("", "2"), ("", "3")])
    requests.go.set()
    await holding  # the second is admitted, and has not run since
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    await asyncio.wait_for(third, 1.0)


async def test_costly_requests_take_more_of_the_limit_and_one_beyond_it_runs_alone() -> None:
    requests = Requests(lane(slots=4.0))
    tasks = [asyncio.create_task(requests.ask(name, cost=cost)) for name, cost in (("a", 3.0), ("b", 2.0))]
    await asyncio.sleep(0.01)
    assert requests.began == ["a"]
    requests.go.set()
    await asyncio.gather(*tasks)
    await requests.ask("beyond", cost=9.0)


async def test_a_request_beyond_the_limit_runs_alone_whatever_fractions_ran_before() -> None:
    requests = Requests(lane(slots=8.0))
    await asyncio.gather(*(requests.ask("before", cost=0.1, lasts_s=0.01) for _ in range(3)))
    async with asyncio.timeout(5):
        await requests.ask("beyond", cost=12.0, lasts_s=0.01)
    assert requests.began[-1] == "beyond"


async def test_a_lane_that_gives_way_rests_after_work_while_the_other_one_works() -> None:
    ordinary = lane()
    resting = Limiter("deep", AdaptiveLimit(1, 1, 1), 100, Instruments(), Rest(lambda: ordinary.begun, 0.25))
    deep = Requests(resting)
    await deep.ask("alone", lasts_s=0.15)
    started = time.monotonic()
    await deep.ask("at once", lasts_s=0.0)
    assert time.monotonic() - started < 0.4  # a rest would be three times the work
    await asyncio.gather(deep.ask("beside another", lasts_s=0.03), Requests(ordinary).ask("ordinary", lasts_s=0.0))
    started = time.monotonic()
    await deep.ask("rested", lasts_s=0.0)
    assert time.monotonic() - started > 0.08
    assert deep.began == ["alone", "at once", "beside another", "rested"]


@pytest.mark.parametrize(("others", "at_once"), [(1, 1), (0, 4)])
async def test_a_lane_that_gives_way_works_on_one_request_at_a_time_while_the_other_one_works(
    others: int, at_once: int
) -> None:
    beside, working, most = 0, 0, 0
    limiter = Limiter("deep", AdaptiveLimit(4, 4, 4), 100, Instruments(), Rest(lambda: beside, 0.999))

    async def ask() -> None:
        nonlocal beside, working, most
        async with limiter.slot(60.0):
            beside += others
            working += 1
            most = max(most, working)
            await asyncio.sleep(0)
            working -= 1

    await ask()
    await asyncio.gather(*(ask() for _ in range(8)))
    assert most == at_once


async def test_a_refusal_of_a_lane_that_gives_way_pauses_its_connection_and_no_other_does() -> None:
    for rest, pauses in ((Rest(lambda: 0, 0.25), True), (None, False)):
        requests = Requests(Limiter("deep", AdaptiveLimit(1, 1, 1), 0, Instruments(), rest))
        (held,) = await requests.queued([("", "held")])
        with pytest.raises(Overloaded) as refused:
            await requests.ask("refused")
        assert refused.value.pauses is pauses
        requests.go.set()
        await held


def early(limiter: Limiter, remaining_s: float, client: str = "") -> bool:
    return limiter.early_refusal(remaining_s, client) is not None


async def refused(requests: Requests, within_s: float, client: str = "") -> None:
    """A request whose work has all of its time."""
    set_deadline(Deadline.after_ms(within_s * 1000))
    with pytest.raises(Overloaded):
        await requests.ask("refused", within_s=within_s, client=client)


async def test_a_lane_that_has_refused_refuses_the_next_before_it_is_read_until_it_would_not_wait_long() -> None:
    requests = await learnt(lane(), 0.2)
    tasks = await requests.queued([("", "held"), ("", "waits")])
    assert not early(requests.limiter, 0.3)  # nothing was refused yet
    await refused(requests, 0.3)
    assert early(requests.limiter, 0.3)
    requests.go.set()
    await asyncio.gather(*tasks)
    assert not early(requests.limiter, 0.3)


async def test_requests_that_are_read_at_once_count_before_they_come() -> None:
    requests = await learnt(lane(slots=4.0), 0.2)
    tasks = await requests.queued([("", str(number)) for number in range(5)])
    await refused(requests, 0.3)
    read = [early(requests.limiter, 2.0) for _ in range(200)]
    assert not read[0]
    assert read[-1]
    assert read == sorted(read)
    assert not early(requests.limiter, 2.0, "another client")
    tasks += await requests.queued([("", "comes")])
    assert not early(requests.limiter, 2.0)  # what came of them waits now
    requests.go.set()
    await asyncio.gather(*tasks)


async def test_an_impatient_request_does_not_make_a_patient_one_be_refused_before_it_is_read() -> None:
    requests = await learnt(lane(slots=8.0), 0.2)
    set_deadline(Deadline.after_ms(10_000))
    tasks = await requests.queued([("", f"{number}") for number in range(9)])
    await refused(requests, 0.22)  # any wait is too long for this one
    set_deadline(Deadline.after_ms(10_000))
    tasks += await requests.queued([("", f"{number}") for number in range(9, 60)])
    assert early(requests.limiter, 0.22)
    assert not early(requests.limiter, 10.0)
    requests.go.set()
    await asyncio.gather(*tasks)


async def test_a_request_that_is_not_read_is_taken_to_have_the_part_of_its_time_for_its_work_that_others_had() -> None:
    requests = await learnt(lane(), 0.2)
    set_deadline(Deadline.after_ms(8_000))
    tasks = [asyncio.create_task(requests.ask(str(number), within_s=2.0)) for number in range(6)]
    await asyncio.sleep(0.01)
    with pytest.raises(Overloaded):
        await requests.ask("refused", within_s=2.0)
    assert early(requests.limiter, 8.0)
    tasks.append(asyncio.create_task(requests.ask("not re-ranked later", within_s=6.0)))
    await asyncio.sleep(0.01)
    assert not early(requests.limiter, 8.0)
    requests.go.set()
    await asyncio.gather(*tasks)


async def test_a_client_that_has_taken_every_place_leaves_its_newest_ones_to_another() -> None:
    requests = Requests(lane(most_waiting=4))
    flood = await requests.queued([("a", f"a{number}") for number in range(5)])
    others = await requests.queued([("b", "b0"), ("b", "b1"), ("b", "b2")])
    evicted = await asyncio.gather(*flood[3:], others[2], return_exceptions=True)
    assert [type(one) for one in evicted] == [Overloaded] * 3
    assert all(isinstance(one, Overloaded) and one.retry_after_s for one in evicted)
    requests.go.set()
    await asyncio.gather(*flood[:3], *others[:2])
    assert sorted(requests.began) == ["a0", "a1", "a2", "b0", "b1"]


async def test_clients_take_turns_by_the_cost_of_their_requests() -> None:
    requests = Requests(lane())
    tasks = await requests.queued([("", "held")])
    tasks += await requests.queued([("a", f"a{number}") for number in range(2)], cost=4.0)
    tasks += await requests.queued([("b", f"b{number}") for number in range(6)])
    requests.go.set()
    await asyncio.gather(*tasks)
    assert requests.began.index("b3") < requests.began.index("a1") < requests.began.index("b5")


@repeated_when_late
async def test_a_request_that_comes_while_a_lane_works_expects_to_wait_for_the_rest_that_follows() -> None:
    beside = iter(range(100))
    limiter = Limiter("deep", AdaptiveLimit(1, 1, 1), 100, Instruments(), Rest(lambda: next(beside), 0.25))
    requests = await learnt(limiter, 0.02)
    (held,) = await requests.queued([("", "held")])
    await asyncio.sleep(0.1)  # it began when the first rest had ended
    with timed():
        assert requests.began == ["held"]
        assert 0.05 < limiter.expected_wait_s() < 0.2
    requests.go.set()
    await held


@pytest.mark.parametrize(("overloaded", "change"), [(False, 0), (None, -1)])
async def test_work_that_was_cut_off_late_is_no_success(overloaded: bool | None, change: int) -> None:
    adaptive = AdaptiveLimit(2.0, 8.0)
    limiter = Limiter("work", adaptive, 100, Instruments())

    async def work() -> None:
        async with limiter.slot(0.1) as held:
            held.overloaded = overloaded
            await asyncio.sleep(60.0)

    tasks = [asyncio.create_task(work()) for _ in range(4)]  # two work, two wait
    await asyncio.sleep(0.08)
    tasks[0].cancel()
    await asyncio.gather(tasks[0], return_exceptions=True)
    assert (adaptive.value > 2.0) - (adaptive.value < 2.0) == change
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("overloaded", [True, None])
async def test_requests_that_have_far_less_time_than_others_do_not_shrink_the_limit(overloaded: bool | None) -> None:
    adaptive = AdaptiveLimit(4.0, 8.0)
    limiter = Limiter("work", adaptive, 100, Instruments())
    async with limiter.slot(1.0):
        for _ in range(50):
            async with limiter.slot(0.0) as held:  # all of its time is over when it ends
                held.overloaded = overloaded
        assert adaptive.value == 4.0


async def test_a_lane_without_a_queue_keeps_for_each_client_its_part() -> None:
    requests = Requests(lane(slots=4.0, most_waiting=0))
    tasks = await requests.queued([("a", f"a{number}") for number in range(4)] + [("b", "b0"), ("b", "b1")])
    for client in ("a", "b"):  # all is taken, and b has its half
        with pytest.raises(Overloaded):
            await requests.ask("refused", client=client)
    requests.go.set()
    await asyncio.gather(*tasks)
    assert requests.began == ["a0", "a1", "a2", "a3", "b0", "b1"]


async def test_a_lane_without_a_queue_rests_for_every_client() -> None:
    beside = iter(range(100))
    rest = Rest(lambda: next(beside), 1e-9)  # as long as any
    requests = Requests(Limiter("deep", AdaptiveLimit(4, 4, 4), 0, Instruments(), rest))
    await requests.ask("first", client="a", lasts_s=0.0)
    with pytest.raises(Overloaded):
        await requests.ask("refused", client="b")
