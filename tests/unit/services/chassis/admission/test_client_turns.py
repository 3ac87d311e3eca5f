"""Clients that share a lane take turns by the cost of what they have had."""

import asyncio

from services.chassis.admission.client_turns import MOST_ABSENT, ClientTurns, Ticket


def ticket(client: str, cost: float = 1.0) -> Ticket:
    return Ticket(client, cost, 60.0, asyncio.get_running_loop().create_future())


def served(turns: ClientTurns, client: str, cost: float) -> None:
    one = ticket(client, cost)
    turns.begin(one)
    turns.end(one)


async def test_a_client_with_one_costly_request_after_the_other_does_not_come_anew_each_time() -> None:
    turns = ClientTurns()
    turns.begin(ticket("holds the lane"))
    served(turns, "costly", 20.0)
    for client in ("costly", "ordinary"):
        turns.add(ticket(client))
    assert turns.next().client == "ordinary"


async def test_clients_that_have_left_are_forgotten_once_they_are_many() -> None:
    turns = ClientTurns()
    turns.begin(ticket("holds the lane"))
    served(turns, "costly", 20.0)
    for number in range(MOST_ABSENT + 1):
        served(turns, str(number), 1.0)
    for client in ("costly", "ordinary"):
        turns.add(ticket(client))
    assert turns.next().client == "costly"


async def test_a_client_that_comes_gets_no_credit_for_the_time_before_it_came() -> None:
    turns = ClientTurns()
    turns.begin(ticket("holds the lane"))
    for _ in range(100):
        turns.begin(ticket("long here"))
    for client in ("long here", "long here", "new", "new", "new"):
        turns.add(ticket(client))
    order = []
    while turns.waiting:
        one = turns.next()
        turns.remove(one)
        turns.begin(one)
        order.append(one.client)
    assert order == ["new", "long here", "new", "long here", "new"]
