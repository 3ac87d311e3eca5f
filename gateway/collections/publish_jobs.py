"""Runs publications in the background: they may take longer than the calls that wait for them. Keeps nothing on disk.

Every step of a publication is idempotent, so after a restart the next call starts it anew.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from services.chassis.background_tasks import Supervisor
from services.chassis.errors import Conflict, DeadlineExceeded, ProblemError
from services.contracts.collections import Published, PublishJob, PublishPhase
from services.contracts.generations import name_of

logger = logging.getLogger(__name__)
# Seconds for a publication. A service that does not finish an index in a day never will.
MOST_S = 86_400.0


@dataclass(slots=True)
class Progress:
    """How far a publication is, and how it ended."""

    generation: str
    fill: bool = False  # whether it fills the generation first
    started_at: float = field(default_factory=time.time)
    phase: PublishPhase = "finish"
    waiting_for: set[str] = field(default_factory=set)
    published: Published | None = None
    error: Exception | None = None

    @contextmanager
    def waits_for(self, backend: str) -> Iterator[None]:
        """Shows this backend as one that has not finished during the block."""
        self.waiting_for.add(backend)
        try:
            yield
        finally:
            self.waiting_for.discard(backend)

    @property
    def ended(self) -> bool:
        """Whether it was published or has failed."""
        return self.published is not None or self.error is not None

    def shown(self) -> PublishJob:
        """Returns what callers see of it."""
        problem = None
        if self.error is not None:
            unforeseen = "An error that we did not foresee; the gateway's log has it."
            problem = self.error.detail if isinstance(self.error, ProblemError) else unforeseen
        return PublishJob(
            generation=self.generation,
            state="published" if self.published else "running" if problem is None else "failed",
            phase=self.phase,
            waiting_for=tuple(sorted(self.waiting_for)),
            started_at=self.started_at,
            problem=problem,
        )


class PublishJobs:
    """Owns this gateway's publications: those that run, and how the last ones of each collection ended."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._jobs: dict[tuple[str, int | None], tuple[Progress, asyncio.Task[None]]] = {}

    def shown(self, name: str) -> tuple[PublishJob, ...]:
        """Returns the publications of a collection."""
        return tuple(job.shown() for job, _ in self._jobs.values() if name_of(job.generation) == name)

    def longest_s(self) -> float:
        """Returns the seconds since the oldest publication that runs began; 0 if none does."""
        return max((time.time() - job.started_at for job, _ in self._jobs.values() if not job.ended), default=0.0)

    def forget(self, name: str) -> None:
        """Makes the publications of a removed collection fail: what is begun under the same names is another."""
        for key in [key for key in self._jobs if name_of(key[0]) == name]:
            job, _ = self._jobs.pop(key)
            job.error = job.error or Conflict(f"Collection '{name}' was removed while {key[0]} was being published.")

    async def result(
        self,
        generation: str,
        expected: int | None,
        work: Callable[[Progress], Awaitable[Published]],
        wait_s: float,
        *,
        fill: bool = False,
    ) -> Published | PublishJob:
        """Starts a publication, or joins the one that runs for the same generation and number of documents.

        Returns its result or raises its error; returns its state if it takes longer than `wait_s`. Raises Conflict
        where one with another `fill` runs: it would publish what the other has not filled.
        """
        for running, _ in self._jobs.values():
            if running.generation == generation and not running.ended and running.fill is not fill:
                how = "with" if running.fill else "without"
                raise Conflict(f"A publish of {generation} {how} `fill` is under way; wait for it, then ask again.")
        key = generation, expected
        if key not in self._jobs or self._jobs[key][0].ended:
            name = name_of(generation)
            ended = [other for other, (job, _) in self._jobs.items() if job.ended and name_of(other[0]) == name]
            for other in ended:
                del self._jobs[other]
            job = Progress(generation, fill)
            self._jobs[key] = job, self._supervisor.start("publish", lambda: _run(job, work))
        job, task = self._jobs[key]
        await asyncio.wait({task}, timeout=wait_s)
        if job.error is not None:
            raise job.error
        return job.published or job.shown()


async def _run(job: Progress, work: Callable[[Progress], Awaitable[Published]]) -> None:
    try:
        async with asyncio.timeout(MOST_S):
            job.published = await work(job)
    except ProblemError as problem:
        job.error = problem
    except TimeoutError:
        job.error = DeadlineExceeded(f"Not published in {MOST_S / 3_600:g} hours. Publish again, it goes on.")
    except Exception as error:
        logger.exception("a publication failed", extra={"generation": job.generation})
        job.error = error
