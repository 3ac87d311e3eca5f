"""Threads that tokenise and infer, so that the event loop never does.

As many threads as cores, one task each at a time; requests take turns, one micro-batch a turn, so that a thousand
passages hold up ten by one micro-batch and not by a thousand. A free thread takes the next task at once: no timer waits
for a fuller batch. Between micro-batches a request whose deadline passed, or whose caller went away, is dropped.
"""

import asyncio
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar, cast

T = TypeVar("T")

MAX_PENDING = 256


class Overloaded(Exception):
    """Too much work waits already; the caller may try again later."""

    def __init__(self, pending: int) -> None:
        super().__init__(f"{pending} batches are waiting for this model already; try again later.")
        self.pending = pending


class DeadlinePassed(Exception):
    """The deadline passed with `done` of `of` batches finished."""

    def __init__(self, done: int, of: int) -> None:
        super().__init__(f"The deadline passed with {done} of {of} batches done.")
        self.done = done
        self.of = of


class WorkersClosed(Exception):
    """The workers were closed before the work was done."""

    def __init__(self) -> None:
        super().__init__("This model is being shut down.")


class _Request:
    """One caller's tasks and what became of them; every field is guarded by the workers' lock."""

    def __init__(self, tasks: Sequence[Callable[[], object]], deadline: float | None, *, urgent: bool) -> None:
        self.urgent = urgent
        self.waiting = deque(enumerate(tasks))
        self.results: dict[int, object] = {}
        self.of = len(tasks)
        self.deadline = deadline
        self.loop = asyncio.get_running_loop()
        self.answered: asyncio.Future[None] = self.loop.create_future()

    def answer(self, error: Exception | None) -> None:
        """Wakes the caller, from any thread; later calls change nothing."""

        def settle() -> None:
            if self.answered.done():
                return
            if error is None:
                self.answered.set_result(None)
            else:
                self.answered.set_exception(error)

        # The loop is closed when its process ends in the middle of a request: nobody is left to be told.
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(settle)


class Workers:
    """A fixed number of threads over a bounded queue of requests. Close it to stop them."""

    def __init__(
        self, threads: int, max_pending: int = MAX_PENDING, name: str = "inference", *, urgent_threads: int = 0
    ) -> None:
        """`max_pending`: tasks that may wait when a new request is still accepted, urgent and other ones apart.

        `urgent_threads` come on top of `threads` and do urgent requests only: those need not even wait for the
        micro-batches that the others are in.
        """
        self._urgent: deque[_Request] = deque()
        self._turns: deque[_Request] = deque()
        self._changed = threading.Condition()
        self._max_pending = max_pending
        self._pending = {True: 0, False: 0}  # by urgency
        self._closed = False
        self._threads = [
            threading.Thread(target=self._work, args=(number < urgent_threads,), name=f"{name}-{number}", daemon=True)
            for number in range(urgent_threads + threads)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pending(self) -> int:
        """How many tasks wait for a thread now."""
        return sum(self._pending.values())

    async def run(
        self, tasks: Sequence[Callable[[], T]], deadline: float | None = None, *, urgent: bool = False
    ) -> list[T]:
        """The results of all tasks, in their order.

        `deadline` is a time.monotonic() value. An `urgent` request has its turn before all others.
        Raises Overloaded at once when too much waits, DeadlinePassed on time, WorkersClosed, and whatever a task
        raised first; in every such case, and when the caller is cancelled, the tasks not yet begun are dropped.
        """
        if not tasks:
            return []
        request = _Request(tasks, deadline, urgent=urgent)
        self._admit(request)
        try:
            async with asyncio.timeout(None if deadline is None else max(0.0, deadline - time.monotonic())):
                await request.answered
        except TimeoutError as error:
            raise DeadlinePassed(len(request.results), request.of) from error
        finally:
            self._drop(request)
        return cast(list[T], [request.results[place] for place in range(request.of)])

    def close(self) -> None:
        """Stops the threads after the tasks that they are in; requests that wait raise WorkersClosed."""
        with self._changed:
            self._closed = True
            left = [*self._urgent, *self._turns]
            self._changed.notify_all()
        for request in left:
            request.answer(WorkersClosed())
            self._drop(request)
        for thread in self._threads:
            thread.join()

    def _admit(self, request: _Request) -> None:
        with self._changed:
            if self._closed:
                raise WorkersClosed
            if self._pending[request.urgent] >= self._max_pending:
                raise Overloaded(self._pending[request.urgent])
            self._pending[request.urgent] += len(request.waiting)
            self._queue(request).append(request)
            self._changed.notify_all()

    def _drop(self, request: _Request) -> None:
        with self._changed:
            self._pending[request.urgent] -= len(request.waiting)
            request.waiting.clear()

    def _queue(self, request: _Request) -> deque[_Request]:
        return self._urgent if request.urgent else self._turns

    def _next(self, *, only_urgent: bool) -> tuple[_Request, int, Callable[[], object]] | None:
        """Waits for the next task in turn, urgent ones first; None when the workers are closed."""
        with self._changed:
            while True:
                while not self._closed and not self._urgent and (only_urgent or not self._turns):
                    self._changed.wait()
                if self._closed:
                    return None
                request = (self._urgent or self._turns).popleft()
                if not request.waiting:
                    continue
                place, task = request.waiting.popleft()
                self._pending[request.urgent] -= 1
                if request.waiting:
                    self._queue(request).append(request)
                return request, place, task

    def _work(self, only_urgent: bool) -> None:
        while (turn := self._next(only_urgent=only_urgent)) is not None:
            request, place, task = turn
            if request.deadline is not None and time.monotonic() >= request.deadline:
                # The caller raises DeadlinePassed by its own clock; here the work is only spared.
                self._drop(request)
                continue
            try:
                result = task()
            except Exception as error:  # whatever it is belongs to the caller
                self._drop(request)
                request.answer(error)
                continue
            with self._changed:
                request.results[place] = result
                done = len(request.results) == request.of
            if done:
                request.answer(None)


def available_cores() -> int:
    """Cores that this process may use: the smaller of its affinity and its cgroup's CPU quota, at least 1."""
    return usable_cores(len(os.sched_getaffinity(0)), _quotas())


def usable_cores(affinity: int, quotas: Sequence[float]) -> int:
    """A quota of 1.5 cores gives 1: two threads would be throttled together, in every period."""
    return max(1, min([affinity, *(math.floor(quota) for quota in quotas)]))


def _quotas(root: Path = Path("/sys/fs/cgroup")) -> list[float]:
    """Quotas in cores, from cgroup v2 (cpu.max) or v1 (cpu.cfs_quota_us); none when there is no limit."""
    try:
        quota, period = (root / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota = (root / "cpu" / "cpu.cfs_quota_us").read_text().strip()
            period = (root / "cpu" / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return []
    return [int(quota) / int(period)] if quota.isdigit() else []
