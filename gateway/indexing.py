"""Documents and collections on their way to every storing backend, with a report of each, so a half-success is seen."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from gateway import backends as wire
from gateway.backends import Backends
from gateway.budget import Budget
from gateway.downstream import Backend
from gateway.failures import BackendFailed, as_problem
from gateway.generations import Generations, name_of, number_of
from gateway.undeclared import undeclared
from services.chassis.deadlines import current_deadline
from services.chassis.errors import Conflict, Unavailable
from services.contracts.collections import (
    BeginCollection,
    CollectionBegun,
    CollectionDeclaration,
    CollectionList,
    CollectionState,
    CollectionView,
    Published,
)
from services.contracts.documents import (
    DeleteReport,
    DocumentsAnswer,
    FanOutReport,
    FetchRequest,
    IdsRequest,
    IndexReport,
    IndexRequest,
    ServiceOutcome,
)

logger = logging.getLogger(__name__)
Result = TypeVar("Result")


class Indexing:
    """Writes to all storing backends at once; nothing is remembered here, so sending again is the recovery."""

    def __init__(self, backends: Backends, generations: Generations) -> None:
        self._backends = backends
        self._generations = generations

    async def begin(self, name: str, wanted: BeginCollection) -> CollectionBegun:
        """The generation that documents go to from now on; needs every storing backend.

        The one being built or the live one if it was declared the same, and no new one is asked for; else a new one.
        """
        budget = Budget.within(current_deadline())
        await self._generations.require_all(_left(budget))
        declaration = CollectionDeclaration(presets=wanted.presets, metadata=wanted.metadata)
        live = self._generations.live(name)
        # Begun halfway, a generation being built is completed. A live one that a backend lacks (another engine took
        # its place) must not be: searches would see it half-built.
        whole = live if live and self._held_by_all(live) else None
        candidates = [] if wanted.new_generation else [self._generations.building(name), whole]
        present = next((one for one in candidates if one and self._declared_as(one, declaration)), None)
        generation = present or f"{name}@{self._highest(name) + 1}"
        await self._on_all(lambda backend: wire.declare(backend, generation, declaration, _left(budget)))
        await self._generations.refresh(_left(budget))
        return CollectionBegun(collection=name, generation=generation, created=present is None, live=live)

    def _declared_as(self, generation: str, declaration: CollectionDeclaration) -> bool:
        holders = [state for state in self._states(name_of(generation)) if state.generation == generation]
        return all(state.declaration == declaration for state in holders)

    def _held_by_all(self, generation: str) -> bool:
        states = self._generations.states(name_of(generation))
        return all(any(state.generation == generation for state in held) for held in states.values())

    def _highest(self, name: str) -> int:
        held = {state.generation for state in self._states(name)}
        unusable = {one.generation for ones in self._generations.unusable(name).values() for one in ones}
        return max(map(number_of, held | unusable), default=0)

    def _states(self, name: str) -> list[CollectionState]:
        return [state for states in self._generations.states(name).values() for state in states]

    async def index(self, name: str, batch: IndexRequest) -> FanOutReport:
        """A batch to every storing backend. Raises only when none took anything."""
        budget = Budget.within(current_deadline())
        generation = await self._generations.writable(name, _left(budget))
        results = await self._each(lambda backend: wire.index(backend, generation, batch, _left(budget)))
        outcomes = _outcomes(results)
        return FanOutReport(
            collection=generation,
            complete=all(isinstance(report, IndexReport) and not report.errors for _, report in results),
            documents=len(batch.documents),
            stripped_characters=sum(document.stripped for document in batch.documents),
            undeclared_metadata=undeclared(batch.documents, generation, self._states(name)),
            services=outcomes,
        )

    async def delete_documents(self, name: str, ids: IdsRequest) -> FanOutReport:
        """Documents out of the live generation and of the one being built, or publishing would bring them back."""
        budget = Budget.within(current_deadline())
        target = await self._generations.writable(name, _left(budget))
        live = self._generations.live(name)
        generations = list(dict.fromkeys([live or target, target]))

        async def delete(backend: Backend) -> DeleteReport:
            reports = [await wire.delete(backend, generation, ids, _left(budget)) for generation in generations]
            return reports[0]  # what searches saw of them

        results = await self._each(delete)
        return FanOutReport(
            collection=generations[0],
            complete=all(isinstance(report, DeleteReport) for _, report in results),
            documents=len(ids.ids),
            services=_outcomes(results),
        )

    async def get_documents(self, name: str, ids: IdsRequest) -> DocumentsAnswer:
        """Documents by id from the document store."""
        budget = Budget.within(current_deadline())
        store = self._backends.document_store
        if store is None:
            raise Unavailable("There is no document store: GATEWAY_BACKENDS names no backend of family lexical.")
        generation = await self._generations.readable(name, _left(budget))
        try:
            answer = await wire.documents(store, generation, FetchRequest(ids=ids.ids), _left(budget))
        except BackendFailed as failure:
            raise as_problem(failure) from failure
        return DocumentsAnswer.model_construct(documents=answer.documents, missing=answer.missing)

    async def publish(self, name: str) -> Published:
        """Finishes everywhere, compares the counts, switches everywhere, removes what is older.

        Stopped midway it is taken up by asking again: every step may be repeated.
        """
        budget = Budget.within(current_deadline())
        await self._generations.require_all(_left(budget))
        generation = await self._generations.writable(name, _left(budget))
        finished = await self._on_all(lambda backend: wire.finish(backend, generation, _left(budget)))
        counts = {backend: state.documents for backend, state in finished.items()}
        if len(set(counts.values())) > 1:
            said = ", ".join(f"{backend} {count}" for backend, count in counts.items())
            raise Conflict(f"The services hold different numbers of documents: {said}. Send the documents again.")
        await self._on_all(lambda backend: wire.publish(backend, generation, _left(budget)))
        await self._remove_older(generation, budget)
        await self._generations.refresh(_left(budget))
        return Published(
            collection=name,
            generation=generation,
            documents=next(iter(counts.values())),
            vectors={backend: state.vectors for backend, state in finished.items() if state.vectors is not None},
        )

    async def _remove_older(self, generation: str, budget: Budget) -> None:
        await self._generations.refresh(_left(budget))
        for backend in self._backends.storing:
            for state in self._generations.states(name_of(generation))[backend.name]:
                if number_of(state.generation) < number_of(generation):
                    try:
                        await wire.remove(backend, state.generation, _left(budget))
                    except BackendFailed as failure:
                        # The switch is done and must not be called a failure for this; the next publish tries again.
                        logger.warning("old generation left behind", extra={"because": str(failure)})

    async def remove(self, name: str) -> None:
        """Every generation of a collection out of every backend; needs all of them, or it would come back."""
        budget = Budget.within(current_deadline())
        await self._generations.require_all(_left(budget))
        unusable = self._generations.unusable(name)
        if not any(unusable.values()):
            await self._generations.writable(name, _left(budget))

        async def remove(backend: Backend) -> None:
            held = [state.generation for state in self._generations.states(name)[backend.name]]
            for generation in (*held, *(one.generation for one in unusable[backend.name])):
                try:
                    await wire.remove(backend, generation, _left(budget))
                except BackendFailed as failure:
                    if not failure.unknown_generation:
                        raise

        await self._on_all(remove)
        await self._generations.refresh(_left(budget))

    async def collections(self) -> CollectionList:
        """Every collection, as every backend sees it now."""
        await self._generations.refresh(_left(Budget.within(current_deadline())))
        return CollectionList(collections=tuple(self._generations.view(name) for name in self._generations.names()))

    async def collection(self, name: str) -> CollectionView:
        """One collection, as every backend sees it now."""
        await self._generations.writable(name, _left(Budget.within(current_deadline())))
        return self._generations.view(name)

    async def _each(
        self, action: Callable[[Backend], Awaitable[Result]]
    ) -> Sequence[tuple[Backend, Result | BackendFailed]]:
        """Every storing backend at once; what failed stands in its place. Raises when all of them failed."""

        async def one(backend: Backend) -> tuple[Backend, Result | BackendFailed]:
            try:
                return backend, await action(backend)
            except BackendFailed as failure:
                return backend, failure

        results = await asyncio.gather(*(one(backend) for backend in self._backends.storing))
        failures = [result for _, result in results if isinstance(result, BackendFailed)]
        if len(failures) == len(results):
            raise as_problem(failures[0])
        return results

    async def _on_all(self, action: Callable[[Backend], Awaitable[Result]]) -> dict[str, Result]:
        """Every storing backend at once; the first that failed is the problem, once all have ended."""
        results = await self._each(action)
        for _, result in results:
            if isinstance(result, BackendFailed):
                raise as_problem(result) from result
        return {backend.name: result for backend, result in results if not isinstance(result, BackendFailed)}


def _left(budget: Budget) -> float:
    return budget.share_s(1.0, 0.0)


def _outcomes(
    results: Sequence[tuple[Backend, IndexReport | BackendFailed]]
    | Sequence[tuple[Backend, DeleteReport | BackendFailed]],
) -> tuple[ServiceOutcome, ...]:
    return tuple(
        ServiceOutcome(backend=backend.name, status="failed", reason=f"{result.reason}: {result.detail}")
        if isinstance(result, BackendFailed)
        else ServiceOutcome(backend=backend.name, status="ok", report=result)
        for backend, result in results
    )
