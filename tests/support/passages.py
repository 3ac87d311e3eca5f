"""A query and passages for every model (relevant, irrelevant, empty, too long, not English), and loop checks."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from services.chassis.deadlines import Deadline
from tests.support.times import timed
from tests.support.vitals import cpu_wait_s

QUERY = "how to true a bent wheel"
PASSAGES = (
    "Truing a bent wheel means tightening and loosening spokes until the rim runs straight.",
    "Bread dough rests twice.",
    "",
    "wheel " * 400,
    "Räder zentrieren 🚲 — ein Rad, das eiert.",
)


# As much as a request may carry, in few passages: little computation, so that a blocked event loop is visible.
LONG = ("wheel spoke rim " * 120_000,) * 4
MOST_STILL_S, MOST_STARVED_S = 0.25, 1.5


@asynccontextmanager
async def responsive_event_loop() -> AsyncIterator[None]:
    """Fails when the event loop stands for MOST_STILL_S, waits for a core left out, or for MOST_STARVED_S in all."""
    longest_s = longest_own_s = 0.0

    async def ticking() -> None:
        nonlocal longest_s, longest_own_s
        while True:
            before, waited_s = time.monotonic(), cpu_wait_s(os.getpid())
            await asyncio.sleep(0.005)
            took_s = time.monotonic() - before
            longest_s = max(longest_s, took_s)
            if took_s > longest_own_s:
                longest_own_s = max(longest_own_s, took_s - (cpu_wait_s(os.getpid()) - waited_s))

    ticker = asyncio.create_task(ticking())
    await asyncio.sleep(0)
    try:
        yield
        await asyncio.sleep(0.01)
    finally:
        ticker.cancel()
    with timed():
        assert longest_own_s < MOST_STILL_S, f"the loop stood for {longest_own_s:.2f} s"
        assert longest_s < MOST_STARVED_S, f"the loop had no core for {longest_s:.2f} s"


def soon() -> Deadline:
    return Deadline.after_ms(60_000)
