"""Runs background tasks and restarts those that die; each death is counted and logged."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from services.chassis.instruments import Instruments

logger = logging.getLogger(__name__)

PAUSE_S = 1.0


class Supervisor:
    """Owns background tasks. Leaving its context cancels them all and waits until they have ended."""

    def __init__(self, instruments: Instruments, pause_s: float = PAUSE_S) -> None:
        self._deaths = instruments.background_deaths
        self._pause_s = pause_s
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def start(self, name: str, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Starts a task that runs `work` until it returns. Runs it again after a pause each time it raises.

        `name` is a label value of the metric `background_task_deaths_total`, so there must be few of them.
        """
        task = asyncio.create_task(self._run_forever(name, work), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _run_forever(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await work()
                return
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                # This task was not cancelled: the CancelledError of another task escaped from `work`.
                logger.exception("background task died", extra={"task": name})
            except Exception:
                logger.exception("background task died", extra={"task": name})
            self._deaths.labels(name).inc()
            await asyncio.sleep(self._pause_s)
