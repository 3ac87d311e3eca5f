"""Decides what a request costs, and in which lane it waits for its turn."""

from contextlib import AbstractAsyncContextManager

from fastapi import Request

from services.chassis.admission.client_turns import set_client
from services.chassis.admission.limits import Held, Limiter
from services.chassis.deadlines import current_deadline

# A request of cost 1. One with more passages waits in a lane of its own: ten passages never wait for a thousand.
ORDINARY_PASSAGES = 100
LEAST_COST = 0.1


def slot(received: Request, client: str, passages: int) -> AbstractAsyncContextManager[Held]:
    """Holds a slot for a client that wants so many passages scored, all of them. Raises Overloaded."""
    set_client(client)
    cost = max(LEAST_COST, passages / ORDINARY_PASSAGES)
    lane: Limiter = received.app.state.lanes["bulk" if cost > 1.0 else "work"]
    return lane.slot(current_deadline().remaining_s, cost=cost, client=client)
