"""Runs what a step computes in a thread, and waits for its end where the step is cancelled."""

import asyncio
import contextvars
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(function: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Calls a function in a thread and returns what it does; its errors are raised here.

    A thread cannot be cancelled. So a cancelled caller waits for its end, and is cancelled then: nothing is written
    into a run's folder after the run has ended, and nothing computes beside the next measurement.
    """
    call = partial(contextvars.copy_context().run, partial(function, *given, **named))
    # A future and no task: the end of the event loop cancels tasks.
    work = asyncio.get_running_loop().run_in_executor(None, call)
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        work.exception()  # read, or asyncio would log it as overlooked
        raise cancelled
    return work.result()
