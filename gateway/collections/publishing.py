"""Publishes builds, rolls back to the generation before, and removes generations that nothing makes live again."""

import asyncio
import logging
import random
import time
from collections.abc import Callable

from gateway.backends import wire
from gateway.backends.budget import CALL_S, Budget
from gateway.backends.failures import BackendFailed
from gateway.backends.wire import Backend, Backends, on_all
from gateway.collections.document_pages import fill_build
from gateway.collections.generations import Generations
from gateway.collections.history import History, expect_own_build
from gateway.collections.publish_jobs import Progress, PublishJobs
from gateway.collections.write_order import CollectionLocks, WritePauses
from services.chassis.deadlines import Deadline, current_deadline
from services.chassis.errors import BuildConflict, BuildNeeded, Conflict, NotHeld, ProblemError, Superseded
from services.contracts.collections import CollectionState, Published, PublishJob, PublishRequest, build_mark
from services.contracts.generations import name_of, number_of
from services.keys.key_ring import Principal

logger = logging.getLogger(__name__)
# Seconds between two checks for superseded generations, and the milliseconds that a check and its removals may take.
RETIRING_S, RETIRING_MS = 10.0, 60_000
# Most seconds for which a publish waits for one removal: a service first ends the writes to what it removes.
REMOVING_S = 5.0
# How often services that differ are compared, and the most seconds that writes are paused for a comparison.
COMPARISONS, MOST_PAUSE_S = 6, 10.0
# Most seconds between comparisons: writes through another gateway, which are not paused, need time to end.
MOST_WAIT_S = 0.5


class Publishing:
    """Switches every storing backend to the same generation. Every step is idempotent, so repeating a call resumes."""

    def __init__(
        self,
        backends: Backends,
        generations: Generations,
        locks: CollectionLocks,
        pauses: WritePauses,
        jobs: PublishJobs,
        keep_previous_s: float,
    ) -> None:
        """`keep_previous_s`: seconds for which the generation live before is kept for a rollback."""
        self._backends = backends
        self._generations = generations
        self._locks = locks
        self._pauses = pauses
        self._jobs = jobs
        self._keep_previous_s = keep_previous_s

    async def publish(self, name: str, request: PublishRequest, caller: Principal | None) -> Published | PublishJob:
        """Finishes the generation everywhere, compares the services' contents, then switches everywhere.

        Returns the state of that where the caller's deadline comes first. Raises Forbidden for a build that is not the
        caller's.
        """

        def target(history: History) -> str:
            self._generations.expect_known(history)
            expect_own_build(history, request.build, caller)
            generation = _requested_generation(history, request)
            _check_not_overtaken(generation, None, history.live)
            return generation

        return await self._publish(name, target, request.expected_documents, fill=request.fill)

    async def roll_back(self, name: str) -> Published | PublishJob:
        """Publishes the generation that was live before."""

        def target(history: History) -> str:
            self._generations.expect_known(history)
            if history.previous is None:
                raise Conflict(_nothing_to_go_back_to(history, self._keep_previous_s))
            return history.previous

        return await self._publish(name, target, None)

    async def _publish(
        self, name: str, target: Callable[[History], str], expected: int | None, *, fill: bool = False
    ) -> Published | PublishJob:
        budget = Budget.within(current_deadline())
        history = await self._generations.require(name, lambda past: past.backends(target(past)), budget.remaining_s())
        generation = target(history)

        async def work(job: Progress) -> Published:
            try:
                if fill:
                    await self._fill(job, history)
                return await self._switch(job, history.live, expected)
            except NotHeld:
                # Publishing a newer generation meanwhile has removed this one: the message is of that.
                await self._generations.refresh(CALL_S)
                _check_not_overtaken(generation, history.live, self._generations.live(name))
                raise

        return await self._jobs.result(generation, expected, work, budget.remaining_s(), fill=fill)

    async def retire_expired_generations(self) -> None:
        """Removes, every few seconds, generations below the live one that are superseded or were kept long enough."""
        while True:
            await asyncio.sleep(min(RETIRING_S, max(1.0, self._keep_previous_s)))
            for name in self._generations.names():
                budget = Budget.within(Deadline.after_ms(RETIRING_MS))
                try:
                    await self._retire(name, budget)
                except ProblemError as problem:  # a backend is unreachable: the next check tries again
                    logger.debug("nothing retired", extra={"because": problem.detail})

    async def _retire(self, name: str, budget: Budget) -> None:
        if self._superseded(self._generations.history(name)):
            # Polled again before anything is removed: another gateway may just have rolled back to it.
            await self._generations.require(name, self._kept_or_superseded, budget.remaining_s())
            await self._remove_superseded(name, budget.remaining_s())

    def _kept_or_superseded(self, history: History) -> set[str]:
        generations = self._superseded(history) | {history.live or ""}
        return {backend for generation in generations for backend in history.backends(generation)}

    def _superseded(self, history: History) -> frozenset[str]:
        age_s = history.live_age_s()
        expired = self._keep_previous_s == 0 or (age_s is not None and age_s >= self._keep_previous_s)
        return history.superseded(keep_previous=not expired)

    async def _fill(self, job: Progress, history: History) -> None:
        """Copies the documents of the live generation into the build, unless an earlier call has published that."""
        store, live, generation = self._backends.document_store, history.live, job.generation
        if store is None or live is None:
            raise Conflict("fill: no generation is live in a document store; send the documents, then publish.")
        if live == generation:
            return
        job.phase = "fill"
        backends = self._generations.backends_of(generation)
        await fill_build(store, live, backends, generation, history.build(generation))
        job.phase = "finish"

    async def _switch(self, job: Progress, live: str | None, expected: int | None) -> Published:
        """Switches to a generation. `live` is the one that was live when the request came."""
        generation = job.generation
        history = self._generations.history(name_of(generation))
        build = history.build(generation)
        finished = await self._finish(job, build)
        documents = _agreed_documents(finished, expected)
        if expected is None and not job.fill:
            _expect_no_less_than_live(history, generation, documents)
        job.phase = "switch"
        async with self._locks.of(history.name):
            if job.error is not None:  # removed meanwhile: what has this number now is another generation
                raise job.error
            # Finishing takes up to hours: a newer generation published meanwhile has writes that this one lacks.
            await self._generations.require(history.name, lambda history: history.backends(generation), CALL_S)
            _check_not_overtaken(generation, live, self._generations.live(history.name))
            number = self._generations.history(history.name).number_to_publish(generation)
            await on_all(
                self._generations.backends_of(generation),
                lambda backend: wire.publish(backend, generation, build, number, CALL_S),
            )
            await self._generations.refresh(CALL_S)
        history = self._generations.history(history.name)
        if history.live != generation:
            raise Conflict(
                f"{generation} was published, and {history.live or 'no generation'} is live: somebody else published, "
                "went back or removed the collection at the same time. Look at the collection, then publish again."
            )
        if self._superseded(history):
            await self._remove_superseded(history.name, REMOVING_S)
            await self._generations.refresh(CALL_S)
        return Published(
            collection=history.name,
            generation=generation,
            documents=documents,
            vectors={backend: state.vectors for backend, state in finished.items() if state.vectors is not None},
        )

    async def _finish(self, job: Progress, build: str | None) -> dict[str, CollectionState]:
        """Finishes a generation everywhere, repeatedly while writes in flight make the services differ.

        The first pass merges and builds indexes; writes continue during it. Later passes are short, and this gateway's
        writes are paused for them. Stops when the services differ but no longer change.
        """

        async def finish_one(backend: Backend) -> CollectionState:
            with job.waits_for(backend.name):
                return await _finish_index(backend, job.generation, build)

        backends = self._generations.backends_of(job.generation)
        states = await on_all(backends, finish_one)
        for again in range(COMPARISONS - 1):
            if len({(state.documents, state.digest) for state in states.values()}) == 1:
                break
            job.phase = "compare"
            await asyncio.sleep(random.uniform(0.0, MOST_WAIT_S) if again else 0.0)
            async with self._pauses.pause(name_of(job.generation), MOST_PAUSE_S):
                before, states = states, await on_all(backends, finish_one)
            if _without_bytes(before) == _without_bytes(states):
                break
        return states

    async def _remove_superseded(self, name: str, timeout_s: float) -> None:
        """Removes what is superseded, in at most `timeout_s` for each service. No error where a service fails: the
        switch has succeeded, and the next check tries again."""
        history = self._generations.history(name)
        superseded = self._superseded(history)
        switched = history.backends(history.live or "")
        kept: set[str] = set()

        async def remove(backend: Backend) -> None:
            budget = Budget.within(Deadline.after_ms(round(timeout_s * 1_000)))
            for state in history.by_backend[backend.name]:
                generation, replaced = state.generation, backend.name in switched
                if generation not in superseded or (not replaced and generation in kept):
                    continue
                try:
                    await wire.remove(backend, generation, state.build, budget.remaining_s(), keep_published=replaced)
                except BackendFailed as failure:
                    if not failure.unknown_generation:  # another gateway has removed it
                        kept.add(generation)
                        logger.warning("old generation left behind", extra={"because": str(failure)})

        await asyncio.gather(*(remove(backend) for backend in self._backends.storing if backend.name in switched))
        # The live generation does not live here, so the one before is still published: no check of the service keeps
        # one that another gateway has just gone back to. What a backend above has kept therefore stays here.
        await asyncio.gather(*(remove(backend) for backend in self._backends.storing if backend.name not in switched))


async def _finish_index(backend: Backend, generation: str, build: str | None) -> CollectionState:
    """Finishes an index in as many calls as that takes: the service goes on after the deadline of each."""
    while True:
        called_at = time.monotonic()
        try:
            return await wire.finish(backend, generation, build, CALL_S)
        except BackendFailed as failure:
            # Without a connection a call fails at once, as a timeout too.
            if failure.reason != "timeout" or time.monotonic() - called_at < CALL_S / 2:
                raise


def _check_not_overtaken(generation: str, before: str | None, now: str | None) -> None:
    if now is not None and now != before and number_of(now) > number_of(generation):
        raise Superseded(
            f"{now} is live, and newer than {generation}. PUT the collection again to build a newer one; "
            f"POST /v1/collections/{name_of(generation)}/rollback goes back to what was live before."
        )


def target_generation(history: History, token: str | None) -> str:
    """Returns the generation that a write goes to. Raises a Conflict that states what to send instead."""
    live, name = history.live, history.name
    if token is None:
        if live is None:
            raise BuildNeeded(_build_needed_message(history))
        return live
    own = history.generation_of_build(build_mark(token))
    if own is None:
        raise BuildConflict(
            f"No generation of collection '{name}' belongs to this build{_removal_remark(history)}. PUT "
            f"/v1/collections/{name} with the same `build` begins one; without a `build` documents go to the live "
            "generation."
        )
    if live is not None and number_of(own) < number_of(live):
        raise Superseded(
            f"{own}, which this build began, is older than {live}, which is live now. PUT /v1/collections/{name} again "
            "to begin a newer one."
        )
    return own


def _requested_generation(history: History, request: PublishRequest) -> str:
    """Returns the generation that a request names. Raises a Conflict that states what to send instead."""
    if request.build is not None:
        own = history.generation_of_build(build_mark(request.build))
        if own is None or request.generation not in (None, own):
            wrong = "No generation" if request.generation is None else f"Not {request.generation}"
            raise BuildConflict(
                f"{wrong} of collection '{history.name}' belongs to this build{'' if own else _removal_remark(history)}"
                f". PUT /v1/collections/{history.name} with the same `build` begins one; its documents and its publish "
                "name it too."
            )
        return own
    if request.generation is not None:
        if request.generation not in history.generations:
            raise Conflict(f"There is no {request.generation}; there are: {', '.join(history.generations)}.")
        if request.generation not in history.builds:
            return request.generation
    elif history.live is not None:
        return history.live
    raise BuildNeeded(_build_needed_message(history))


def _removal_remark(history: History) -> str:
    """Returns what may have become of a build that is not there, for its message."""
    return (
        "" if history.live is None else " (a newer generation that was published since has removed it, if it began one)"
    )


def _build_needed_message(history: History) -> str:
    """Returns the message for a request that must name a build."""
    return (
        f"Only unpublished generations are there ({', '.join(history.builds)}), and each belongs to who began it: send "
        f"the `build` that PUT /v1/collections/{history.name} was given or answered with. Lost it? PUT again with "
        "another begins a new generation."
    )


def _without_bytes(states: dict[str, CollectionState]) -> dict[str, CollectionState]:
    # Merges change the size of an index whose contents stay.
    return {backend: state.model_copy(update={"bytes": None}) for backend, state in states.items()}


def _agreed_documents(finished: dict[str, CollectionState], expected: int | None) -> int:
    """Returns the number of documents. Raises Conflict if the services' contents differ or are empty."""
    counts = {backend: state.documents for backend, state in finished.items()}
    if len(set(counts.values())) > 1:
        held = ", ".join(f"{backend} {count}" for backend, count in counts.items())
        raise Conflict(
            f"The services hold different numbers of documents: {held}. Send the documents again, and publish when no "
            "write is under way."
        )
    if len({state.digest for state in finished.values()}) > 1:
        held = ", ".join(f"{backend} {(state.digest or 'none')[:12]}" for backend, state in finished.items())
        raise Conflict(
            f"The services hold different contents under the same ids (digests: {held}). Send the documents again, and "
            "publish when no write is under way."
        )
    documents = next(iter(counts.values()))
    if expected is not None and documents != expected:
        raise Conflict(
            f"The services hold {documents} documents, and {expected} were expected. Send what is missing, or begin a "
            "new generation if there are too many; then publish again."
        )
    if documents == 0:
        raise Conflict(
            'There are no documents in it: send some, then publish, or publish with "fill": true, which copies those '
            "of a live generation. DELETE removes the whole collection, a live generation too."
        )
    return documents


def _expect_no_less_than_live(history: History, generation: str, documents: int) -> None:
    """Raises Conflict for a build on a further backend that has fewer documents than the live generation."""
    live = history.live
    if live is None or generation not in history.builds or history.backends(generation) <= history.backends(live):
        return
    if documents < (most := max(state.documents for state in history.holders(live))):
        raise Conflict(
            f"{generation}, on a further backend, has {documents} documents, and {live} has {most}: publish it with "
            f'"fill": true, which copies the others, or state that it is whole: "expected_documents": {documents}.'
        )


def _nothing_to_go_back_to(history: History, keep_s: float) -> str:
    if history.live is None:
        return f"No generation of collection '{history.name}' is published, so there is none to go back to."
    kept = (
        f"The one that was live before is kept for {keep_s:g} s, or until another is published"
        if keep_s
        else "None is kept when the next one is published"
    )
    return (
        f"No generation below {history.live} was published in every service and is still there, so there is none to go "
        f"back to. {kept} (GATEWAY_KEEP_PREVIOUS_S)."
    )
