"""Threads that tokenise and infer, so that the event loop never does.

As many threads as cores, one task each at a time. Smaller requests go first and those of about the same size take
turns, one micro-batch a turn, so that a thousand passages hold up ten by the micro-batches that already run and not by
a thousand; one turn in eight goes by age, so that nobody starves. A free thread takes the next task at once: no timer
waits for a fuller batch. Between micro-batches a request whose deadline passed, or whose caller went away, is dropped.
Once nobody has asked for anything for a second, each thread gives back the memory that its tasks have left.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from services.chassis.deadlines import Deadline
from services.chassis.errors import DeadlineExceeded, Overloaded, Unavailable
from services.inference.glibc_memory import trim

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Tasks that may wait before those of a new request. About a quarter minute of two cores' work in fp32.
MAX_PENDING = 256
# Every so many turns the one who waited longest goes first: large requests keep moving, and small ones are slowed down
# by an eighth at most.
TURNS_BY_AGE = 8
# Giving memory back takes tens of milliseconds, and getting it again page faults: not between two requests of one user.
REST_S = 1.0


class StopRequest(Exception):
    """Raised by a task: neither it nor the tasks of its request that have not begun are worth doing any more."""


class _Request:
    """One caller's tasks and what became of them; every field is guarded by the workers' lock."""

    def __init__(self, tasks: Sequence[Callable[[], object]], deadline: Deadline | None, *, urgent: bool) -> None:
        self.urgent = urgent
        self.waiting = deque(enumerate(tasks))
        self.results: dict[int, object] = {}
        self.of = len(tasks)
        self.running = 0
        self.deadline = deadline
        self.loop = asyncio.get_running_loop()
        self.answered: asyncio.Future[None] = self.loop.create_future()

    @property
    def size(self) -> int:
        """Requests of the same size take turns: the number of tasks, told apart by factors of two."""
        return self.of.bit_length()

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
        self,
        threads: int,
        max_pending: int = MAX_PENDING,
        name: str = "inference",
        *,
        inputs: str = "texts",
        urgent_threads: int = 0,
        rest: Callable[[], None] = trim,
        rest_s: float = REST_S,
    ) -> None:
        """`max_pending`: tasks that may wait before a new request that is still accepted, urgent and other ones apart.

        `inputs` is what the callers send, in the plural, as DeadlineExceeded names it. `urgent_threads` come on top
        of `threads` and do urgent requests only: those need not even wait for the micro-batches that the others are
        in. Each thread that has done what was not urgent calls `rest` once it has nothing to do and no request,
        urgent or not, has come for `rest_s`, so that trimming never delays a request.
        """
        self._urgent: deque[_Request] = deque()
        self._turns: deque[_Request] = deque()
        self._changed = threading.Condition()
        self._max_pending = max_pending
        self._inputs = inputs
        self._rest, self._rest_s = rest, rest_s
        self._turn = 0
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
        with self._changed:
            return sum(len(request.waiting) for queue in (self._urgent, self._turns) for request in queue)

    @property
    def waiting_requests(self) -> int:
        """How many requests, urgent ones aside, have tasks that wait for a thread now."""
        return len(self._turns)

    async def run(
        self, tasks: Sequence[Callable[[], T]], deadline: Deadline | None = None, *, urgent: bool = False
    ) -> list[T]:
        """Runs all tasks and returns their results in the same order. An `urgent` request goes before all others.

        Raises Overloaded at once when too much waits, DeadlineExceeded on time, Unavailable while closing, and
        whatever a task raised first; in every such case, and when the caller is cancelled, the tasks not yet begun
        are dropped.
        """
        results = await self._results(tasks, deadline, urgent=urgent)
        if len(results) < len(tasks):
            raise DeadlineExceeded(
                f"The deadline passed with {len(results)} of {len(tasks)} batches done. "
                f"Send fewer {self._inputs} or a larger X-Deadline-Ms."
            )
        return [results[place] for place in range(len(tasks))]

    async def run_until(self, tasks: Sequence[Callable[[], T]], deadline: Deadline) -> list[T | None]:
        """Runs tasks until the deadline, or until one raises StopRequest; None for those that are not done."""
        results = await self._results(tasks, deadline, urgent=False)
        return [results.get(place) for place in range(len(tasks))]

    def close(self) -> None:
        """Stops the threads after the tasks that they are in; requests that wait raise Unavailable."""
        with self._changed:
            self._closed = True
            left = [*self._urgent, *self._turns]
            self._changed.notify_all()
        for request in left:
            request.answer(_closed())
            self._drop(request)
        for thread in self._threads:
            thread.join()

    async def _results(
        self, tasks: Sequence[Callable[[], T]], deadline: Deadline | None, *, urgent: bool
    ) -> dict[int, T]:
        """By place, what is done when all is, when the deadline passes, or when a task has raised StopRequest."""
        if not tasks:
            return {}
        request = _Request(tasks, deadline, urgent=urgent)
        self._admit(request)
        try:
            async with asyncio.timeout(None if deadline is None else deadline.remaining_s) as bound:
                await request.answered
        except TimeoutError:
            # A task's own TimeoutError is its caller's.
            if not bound.expired():
                raise
        finally:
            self._drop(request)
        with self._changed:
            return cast(dict[int, T], dict(request.results))

    def _admit(self, request: _Request) -> None:
        with self._changed:
            if self._closed:
                raise _closed()
            queue = self._queue(request)
            # Only what goes before it: a request of a thousand passages must not shut out one of ten.
            ahead = sum(len(other.waiting) for other in queue if other.size <= request.size)
            if ahead >= self._max_pending:
                raise Overloaded(f"{ahead} batches are waiting for this model already; try again later.")
            queue.append(request)
            self._changed.notify_all()

    def _drop(self, request: _Request) -> None:
        with self._changed:
            if request.waiting:
                request.waiting.clear()
                self._queue(request).remove(request)

    def _queue(self, request: _Request) -> deque[_Request]:
        return self._urgent if request.urgent else self._turns

    def _next(
        self, patience_s: float | None, *, only_urgent: bool
    ) -> tuple[_Request, int, Callable[[], object]] | None:
        """Waits for the next task in turn, urgent ones first; None when none came, or the workers are closed."""
        with self._changed:
            while not self._closed and not self._urgent and (only_urgent or not self._turns):
                if not self._changed.wait(patience_s):  # every request that comes begins this wait anew
                    return None
            if self._closed:
                return None
            queue = self._urgent or self._turns
            self._turn += 1
            # The queue is in the order of last turns, so that of equals the first is the one who waited longest.
            by_age = self._turn % TURNS_BY_AGE == 0
            request = queue[0] if by_age else min(queue, key=lambda waiting: waiting.size)
            queue.remove(request)
            place, task = request.waiting.popleft()
            request.running += 1
            if request.waiting:
                queue.append(request)
            return request, place, task

    def _work(self, only_urgent: bool) -> None:
        patience_s: float | None = None
        while not self._closed:
            turn = self._next(patience_s, only_urgent=only_urgent)
            if turn is not None:
                self._do(*turn)
                patience_s = patience_s if turn[0].urgent else self._rest_s
            elif patience_s is not None and not self._closed:
                try:
                    self._rest()
                except Exception:  # it would end the thread, unseen, and requests would wait for it for ever
                    logger.exception("could not give memory back")
                patience_s = None

    def _do(self, request: _Request, place: int, task: Callable[[], object]) -> None:
        try:
            if request.deadline is not None and not request.deadline.remaining_s:
                raise StopRequest
            result = task()
        except StopRequest:
            self._drop(request)
        except Exception as error:  # whatever it is belongs to the caller
            self._drop(request)
            request.answer(error)
        else:
            with self._changed:
                request.results[place] = result
        with self._changed:
            request.running -= 1
            ended = not request.waiting and not request.running
        if ended:
            request.answer(None)


def _closed() -> Unavailable:
    return Unavailable("This model is being shut down.")
