"""Runs the tasks of requests on threads, so that tokenising and inference never block the event loop.

Owns the threads, the queues and their bounds; what a task computes is left to open_model. There are as many threads as
cores, and each runs one task at a time, a micro-batch. Small requests go first, and requests of about the same size
take turns by task, so that ten passages wait only for the micro-batches that already run, not for a thousand passages.
Clients take turns by task too, before sizes count (current_client).
Aging prevents starvation: one turn in eight goes to the request served least recently. A free thread takes the next
task at once: no timer waits for a fuller batch. Between two tasks, a request is dropped when its deadline has passed or
its caller is cancelled. After a second without requests, each thread returns its freed memory.
"""

import asyncio
import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from services.chassis.admission.client_turns import MOST_ABSENT, current_client
from services.chassis.deadlines import Deadline
from services.chassis.errors import DeadlineExceeded, Overloaded, Unavailable
from services.inference.glibc_memory import trim_memory

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Backpressure: with as many tasks ahead of a new request, it is refused. About 15 s of work for two cores in fp32.
MAX_PENDING = 256
# Aging: every so many turns the request served least recently goes first, which slows small ones by at most an eighth.
AGING_INTERVAL = 8
# Trimming takes tens of milliseconds, and using the memory again causes page faults: too much between two requests.
IDLE_S = 1.0


class StopRequest(Exception):
    """Raised by a task to drop the tasks of its request that have not begun; the task itself has no result."""


class _Request:
    """The tasks of one request, and their results; the workers' lock guards every field."""

    def __init__(self, tasks: Sequence[Callable[[], object]], deadline: Deadline | None, *, urgent: bool) -> None:
        self.urgent = urgent
        self.client = current_client()
        self.waiting = deque(enumerate(tasks))
        self.results: dict[int, object] = {}
        self.total = len(tasks)
        self.running = 0
        self.deadline = deadline
        self.loop = asyncio.get_running_loop()
        self.answered: asyncio.Future[None] = self.loop.create_future()

    @property
    def size(self) -> int:
        """Class of the number of tasks, by factors of two; requests of the same class take turns."""
        return self.total.bit_length()

    def answer(self, error: Exception | None) -> None:
        """Wakes the caller with success or `error`, from any thread; later calls change nothing."""

        def settle() -> None:
            if self.answered.done():
                return
            if error is None:
                self.answered.set_result(None)
            else:
                self.answered.set_exception(error)

        # A process that ends during a request has closed its loop, so no caller waits any more.
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(settle)


class Workers:
    """Schedules requests on a fixed number of threads, with bounded queues; `close` stops the threads."""

    def __init__(
        self,
        threads: int,
        max_pending: int = MAX_PENDING,
        name: str = "inference",
        *,
        inputs: str = "texts",
        urgent_threads: int = 0,
        niceness: int = 0,
        on_idle: Callable[[], None] = trim_memory,
        idle_s: float = IDLE_S,
    ) -> None:
        """Starts the threads. `max_pending`: tasks that may wait ahead of a new request; urgent ones count separately.

        `inputs` is the plural by which DeadlineExceeded names what clients send. `urgent_threads` are added to
        `threads` and run urgent requests only, so that those need not wait for running micro-batches. `niceness` lowers
        the priority of the others among all threads of the machine (Linux; 19 is the lowest). A thread that
        has run a task which was not urgent calls `on_idle` once it is idle and no request of any kind has come for
        `idle_s` seconds, so that trimming never delays a request.
        """
        self._urgent: deque[_Request] = deque()
        self._regular: deque[_Request] = deque()
        self._condition = threading.Condition()
        self._max_pending = max_pending
        self._inputs = inputs
        self._on_idle, self._idle_s = on_idle, idle_s
        self._niceness = niceness
        self._turns_taken = 0
        self._last_turns: dict[str, int] = {}  # by client
        self._closed = False
        self._threads = [
            threading.Thread(
                target=self._run_tasks, args=(number < urgent_threads,), name=f"{name}-{number}", daemon=True
            )
            for number in range(urgent_threads + threads)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pending(self) -> int:
        """Number of tasks that wait for a thread now."""
        with self._condition:
            return sum(len(request.waiting) for queue in (self._urgent, self._regular) for request in queue)

    @property
    def share(self) -> float:
        """Part of the threads' turns that a new request gets which is not urgent, of the current client."""
        client = current_client()
        with self._condition:
            clients = [request.client for request in self._regular]
        return 1 / (len({client, *clients}) * (1 + clients.count(client)))

    async def run(
        self, tasks: Sequence[Callable[[], T]], deadline: Deadline | None = None, *, urgent: bool = False
    ) -> list[T]:
        """Runs all tasks and returns their results in the same order. `urgent` requests go before all others.

        Raises Overloaded at once when the queue is full, DeadlineExceeded at the deadline, Unavailable while closing,
        or the first exception of a task. In these cases, and if the caller is cancelled, tasks not begun are dropped.
        """
        results = await self._results(tasks, deadline, urgent=urgent)
        if len(results) < len(tasks):
            raise DeadlineExceeded(
                f"The deadline passed with {len(results)} of {len(tasks)} batches done. "
                f"Send fewer {self._inputs} or a larger X-Deadline-Ms."
            )
        return [results[place] for place in range(len(tasks))]

    async def run_until(self, tasks: Sequence[Callable[[], T]], deadline: Deadline) -> list[T | None]:
        """Runs tasks until the deadline, or until one raises StopRequest; returns None for unfinished ones."""
        results = await self._results(tasks, deadline, urgent=False)
        return [results.get(place) for place in range(len(tasks))]

    def close(self) -> None:
        """Stops the threads after their current tasks; waiting requests raise Unavailable."""
        with self._condition:
            self._closed = True
            waiting = [*self._urgent, *self._regular]
            self._condition.notify_all()
        for request in waiting:
            request.answer(_closed())
            self._drop(request)
        for thread in self._threads:
            thread.join()

    async def _results(
        self, tasks: Sequence[Callable[[], T]], deadline: Deadline | None, *, urgent: bool
    ) -> dict[int, T]:
        """Returns results by place, when all tasks are done, at the deadline, or after a StopRequest."""
        if not tasks:
            return {}
        request = _Request(tasks, deadline, urgent=urgent)
        self._admit(request)
        try:
            async with asyncio.timeout(None if deadline is None else deadline.remaining_s) as bound:
                await request.answered
        except TimeoutError:
            # A TimeoutError that a task raised goes to the caller.
            if not bound.expired():
                raise
        finally:
            self._drop(request)
        with self._condition:
            return cast(dict[int, T], dict(request.results))

    def _admit(self, request: _Request) -> None:
        with self._condition:
            if self._closed:
                raise _closed()
            queue = self._queue(request)
            # Counts only requests of this client that go first: a thousand waiting passages must not refuse ten.
            own = (other for other in queue if other.client == request.client)
            ahead = sum(len(other.waiting) for other in own if other.size <= request.size)
            if ahead >= self._max_pending:
                raise Overloaded(f"{ahead} batches are waiting for this model already; try again later.")
            queue.append(request)
            if request.urgent:
                self._condition.notify(request.total)  # any thread takes it: the others need not wake
            else:
                self._condition.notify_all()

    def _drop(self, request: _Request) -> None:
        with self._condition:
            if request.waiting:
                request.waiting.clear()
                self._queue(request).remove(request)

    def _queue(self, request: _Request) -> deque[_Request]:
        return self._urgent if request.urgent else self._regular

    def _next_task(
        self, timeout_s: float | None, *, only_urgent: bool
    ) -> tuple[_Request, int, Callable[[], object]] | None:
        """Waits for the next task, urgent ones first; None after `timeout_s` without requests, or on closing."""
        with self._condition:
            while not self._closed and not self._urgent and (only_urgent or not self._regular):
                if not self._condition.wait(timeout_s):  # each new request restarts this wait
                    return None
            if self._closed:
                return None
            queue = self._urgent or self._regular
            self._turns_taken += 1
            # Ordered by last turn: the head was served least recently, and of equal sizes `min` takes the first.
            aging, turns = self._turns_taken % AGING_INTERVAL == 0, self._last_turns
            request = queue[0] if aging else min(queue, key=lambda other: (turns.get(other.client, 0), other.size))
            turns[request.client] = self._turns_taken
            if len(turns) > MOST_ABSENT:
                turns.clear()
            queue.remove(request)
            place, task = request.waiting.popleft()
            request.running += 1
            if request.waiting:
                queue.append(request)
            return request, place, task

    def _run_tasks(self, only_urgent: bool) -> None:
        if self._niceness and not only_urgent and sys.platform == "linux":  # elsewhere `nice` is of the whole process
            os.nice(self._niceness)
        timeout_s: float | None = None
        while not self._closed:
            next_task = self._next_task(timeout_s, only_urgent=only_urgent)
            if next_task is not None:
                self._execute(*next_task)
                timeout_s = timeout_s if next_task[0].urgent else self._idle_s
            elif timeout_s is not None and not self._closed:
                try:
                    self._on_idle()
                except Exception:  # it would end the thread silently, and requests would wait for ever
                    logger.exception("could not give memory back")
                timeout_s = None

    def _execute(self, request: _Request, place: int, task: Callable[[], object]) -> None:
        try:
            if request.deadline is not None and not request.deadline.remaining_s:
                raise StopRequest
            result = task()
        except StopRequest:
            self._drop(request)
        except Exception as error:  # any exception of a task goes to the caller
            self._drop(request)
            request.answer(error)
        else:
            with self._condition:
                request.results[place] = result
        with self._condition:
            request.running -= 1
            ended = not request.waiting and not request.running
        if ended:
            request.answer(None)


def _closed() -> Unavailable:
    return Unavailable("This model is being shut down.")
