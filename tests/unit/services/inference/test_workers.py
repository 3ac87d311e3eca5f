"""Checks scheduling, aging, backpressure, deadlines and idle trimming of the worker threads."""

import asyncio
import os
import random
import sys
import threading
import time

import pytest

from services.chassis.deadlines import Deadline
from services.chassis.errors import DeadlineExceeded, Overloaded, Unavailable
from services.inference.workers import AGING_INTERVAL, StopRequest, Workers


@pytest.fixture
def one():
    """Starts workers with a single thread, so that tests see the order of tasks."""
    workers = Workers(1, max_pending=10)
    yield workers
    workers.close()


@pytest.fixture
def gate():
    """Returns an event that blocks a task until the test sets it."""
    return threading.Event()


async def occupied(workers, gate):
    """Keeps the single thread busy until `gate` is set."""
    started = threading.Event()

    def wait() -> None:
        started.set()
        gate.wait(10)

    request = asyncio.create_task(workers.run([wait]))
    await asyncio.to_thread(started.wait, 10)
    return request


async def test_results_come_in_the_order_of_the_tasks():
    workers = Workers(3)
    try:
        tasks = [lambda place=place: (time.sleep(0.001 * (place % 3)), place)[1] for place in range(30)]
        assert await workers.run(tasks) == list(range(30))
    finally:
        workers.close()


@pytest.mark.skipif(sys.platform != "linux", reason="a thread has a priority of its own on Linux alone")
async def test_threads_that_give_way_have_a_lower_priority_and_the_urgent_one_has_not():
    def priority() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    usual = await asyncio.to_thread(priority)
    workers = Workers(1, urgent_threads=1, niceness=7)
    try:
        assert await workers.run([priority]) == [min(usual + 7, 19)]  # 19: the lowest there is
        started, held = threading.Event(), threading.Event()
        busy = asyncio.create_task(workers.run([lambda: (started.set(), held.wait(10))]))
        await asyncio.to_thread(started.wait, 10)
        assert await workers.run([priority], urgent=True) == [usual]
        held.set()
        await busy
    finally:
        workers.close()


async def test_no_task_runs_on_the_loop_and_all_threads_are_used():
    workers = Workers(2)
    barrier = threading.Barrier(2)  # passed only when two threads wait at once

    def meet() -> int:
        barrier.wait(5)
        return threading.get_ident()

    try:
        idents = await workers.run([meet, meet])
    finally:
        workers.close()
    assert len(set(idents)) == 2
    assert threading.get_ident() not in idents


def noting(order: list[str], name: str, times: int):
    """Returns tasks that append `name` to `order`."""
    return [lambda: order.append(name)] * times


async def served(workers, gate, *requests):
    """Sends all requests while the single thread is busy, unblocks it, and waits for all results."""
    first = await occupied(workers, gate)
    asked = []
    for tasks in requests:
        asked.append(asyncio.create_task(workers.run(tasks)))
        await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(first, *asked)


async def test_requests_of_about_the_same_size_take_turns(one, gate):
    order: list[str] = []
    await served(one, gate, noting(order, "four", 4), noting(order, "five", 5))
    assert order == ["four", "five"] * 4 + ["five"]


async def test_a_small_request_does_not_wait_for_a_large_one(gate):
    workers = Workers(1)
    order: list[str] = []
    try:
        await served(workers, gate, noting(order, "large", 500), noting(order, "small", 5))
    finally:
        workers.close()
    # At most one turn of the large request, by aging, comes before the last small task.
    assert order[:6].count("small") == 5
    assert order.count("large") == 500


async def test_aging_lets_a_large_request_progress_beside_small_ones(gate):
    workers = Workers(1)
    order: list[str] = []
    try:
        smaller = [noting(order, "smaller", 31) for _ in range(2)]
        await served(workers, gate, noting(order, "large", 64), *smaller)
    finally:
        workers.close()
    meanwhile = order[: len(order) - order[::-1].index("smaller")]
    assert meanwhile.count("large") == pytest.approx(len(meanwhile) / AGING_INTERVAL, abs=1)


async def test_run_until_returns_what_is_done_at_the_deadline(one, gate):
    start = time.monotonic()
    results = await one.run_until([lambda: "first", lambda: gate.wait(5), lambda: "never"], Deadline.after_ms(200))
    assert time.monotonic() - start < 4
    assert results == ["first", None, None]
    gate.set()
    assert one.pending == 0


async def test_a_stop_request_ends_its_own_request_and_no_other(one, gate):
    def stop() -> str:
        raise StopRequest

    first = await occupied(one, gate)
    stopped = asyncio.create_task(one.run_until([lambda: "first", stop, lambda: "never"], Deadline.after_ms(60_000)))
    other = asyncio.create_task(one.run([lambda: "fine"] * 3))
    await asyncio.sleep(0)
    gate.set()
    assert await stopped == ["first", None, None]
    assert await other == ["fine"] * 3
    await first


async def test_an_urgent_request_has_the_next_turn(one, gate):
    order: list[str] = []
    first = await occupied(one, gate)
    passages = asyncio.create_task(one.run([lambda: order.append("passage")] * 3))
    await asyncio.sleep(0)
    query = asyncio.create_task(one.run([lambda: order.append("query")], urgent=True))
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(first, passages, query)
    assert order == ["query", "passage", "passage", "passage"]


async def test_an_urgent_thread_runs_urgent_requests_only(gate):
    workers = Workers(1, max_pending=2, urgent_threads=1)
    try:
        passages = asyncio.create_task(workers.run([lambda: gate.wait(5)] * 2))
        await asyncio.sleep(0.05)
        assert workers.pending == 1
        assert await workers.run([lambda: "query"], urgent=True) == ["query"]
        assert workers.pending == 1
        gate.set()
        await passages
    finally:
        workers.close()


async def test_a_full_queue_refuses_at_once_and_accepts_again_later(one, gate):
    first = await occupied(one, gate)
    waiting = asyncio.create_task(one.run([lambda: None] * 10))
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await one.run([lambda: None] * 10)
    gate.set()
    await asyncio.gather(first, waiting)
    assert await one.run([lambda: "again"]) == ["again"]


async def test_a_deadline_ends_a_request_while_a_batch_still_runs(one, gate):
    start = time.monotonic()
    with pytest.raises(DeadlineExceeded, match="1 of 3"):
        await one.run([lambda: None, lambda: gate.wait(5), lambda: None], Deadline.after_ms(100))
    assert time.monotonic() - start < 4
    gate.set()


async def test_a_thousand_random_cancellations_leave_the_queues_empty():
    workers = Workers(2, max_pending=100_000)
    chance = random.Random(5)
    try:
        for _ in range(50):
            requests = [asyncio.create_task(workers.run([lambda: time.sleep(0.0001)] * 5)) for _ in range(20)]
            for request in requests:
                if chance.random() < 0.3:
                    await asyncio.sleep(0)
                request.cancel()
            await asyncio.gather(*requests, return_exceptions=True)
        assert await workers.run([lambda: "alive"]) == ["alive"]
        assert workers.pending == 0
    finally:
        workers.close()


async def test_a_past_deadline_raises_without_running_a_task(one):
    with pytest.raises(DeadlineExceeded, match="0 of 1"):
        await one.run([lambda: time.sleep(1)], Deadline.after_ms(-1_000))
    assert one.pending == 0


async def test_the_first_error_ends_its_request_and_no_other(one, gate):
    done: list[int] = []
    first = await occupied(one, gate)
    bad = asyncio.create_task(one.run([lambda: 1 // 0, lambda: done.append(1)]))
    good = asyncio.create_task(one.run([lambda: "fine"]))
    await asyncio.sleep(0)
    gate.set()
    with pytest.raises(ZeroDivisionError):
        await bad
    assert await good == ["fine"]
    await first
    assert done == []


async def test_closing_refuses_waiting_and_new_requests(gate):
    workers = Workers(1)
    first = await occupied(workers, gate)
    waiting = asyncio.create_task(workers.run([lambda: None]))
    await asyncio.sleep(0)
    closing = asyncio.create_task(asyncio.to_thread(workers.close))
    with pytest.raises(Unavailable):
        await waiting
    gate.set()
    await asyncio.gather(first, closing)
    with pytest.raises(Unavailable):
        await workers.run([lambda: None])


async def test_every_thread_calls_on_idle_once_after_the_idle_time():
    idle_calls: list[str] = []
    barrier = threading.Barrier(2)
    workers = Workers(2, on_idle=lambda: idle_calls.append(threading.current_thread().name), idle_s=0.5)
    try:
        for _ in range(3):
            await workers.run([barrier.wait] * 2)
        assert idle_calls == []
        await asyncio.sleep(1.5)
        assert sorted(idle_calls) == ["inference-0", "inference-1"]
    finally:
        workers.close()


async def test_a_failing_on_idle_ends_no_thread(caplog: pytest.LogCaptureFixture) -> None:
    called = threading.Event()

    def broken() -> None:
        called.set()
        raise OSError("no such function")

    workers = Workers(1, on_idle=broken, idle_s=0.05)
    try:
        for _ in range(2):
            called.clear()
            assert await workers.run([lambda: 1], Deadline.after_ms(5_000)) == [1]
            assert await asyncio.to_thread(called.wait, 5.0)
    finally:
        workers.close()
    assert "could not give memory back" in caplog.text
