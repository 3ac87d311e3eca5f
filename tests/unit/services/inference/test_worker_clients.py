"""Clients take turns on the worker threads, whatever the number and the size of their requests."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from services.chassis.admission.client_turns import set_client
from services.chassis.errors import Overloaded
from services.inference.workers import AGING_INTERVAL, Workers


class Held:
    """Workers of one thread, which is busy until they go on."""

    def __init__(self) -> None:
        self.workers = Workers(1, max_pending=10)
        self.go = threading.Event()

    def asked(self, client: str, tasks: Sequence[Callable[[], object]]) -> asyncio.Task[list[object]]:
        set_client(client)
        return asyncio.create_task(self.workers.run(tasks))

    async def busy(self) -> asyncio.Task[list[object]]:
        begun = threading.Event()
        first = self.asked("", [lambda: (begun.set(), self.go.wait(10))])
        await asyncio.to_thread(begun.wait, 10)
        return first


@pytest.fixture
def held() -> Iterator[Held]:
    one = Held()
    yield one
    one.workers.close()


async def test_one_request_of_a_client_has_half_of_the_turns_beside_many_small_ones_of_another(held: Held) -> None:
    order: list[str] = []
    asked = [await held.busy(), *(held.asked("many", [lambda: order.append("many")]) for _ in range(10))]
    asked.append(held.asked("one", [lambda: order.append("one")] * 9))
    await asyncio.sleep(0)
    held.go.set()
    await asyncio.gather(*asked)
    beside = order[: len(order) - order[::-1].index("many")]
    # Turns by age are those of the many.
    assert abs(beside.count("one") - len(beside) / 2) <= 1 + len(beside) / AGING_INTERVAL


async def test_a_full_queue_of_one_client_refuses_nothing_of_another_and_leaves_it_half(held: Held) -> None:
    asked = [await held.busy(), *(held.asked("flood", [lambda: None] * 5) for _ in range(2))]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await held.asked("flood", [lambda: None] * 5)
    set_client("other")
    assert held.workers.share == 1 / 2
    other = held.asked("other", [lambda: "done"])
    await asyncio.sleep(0)
    assert held.workers.share == 1 / 4
    held.go.set()
    assert await other == ["done"]
    await asyncio.gather(*asked)
