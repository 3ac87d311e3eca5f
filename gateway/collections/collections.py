"""Begins, lists and removes collections in all the backends that they live on at once."""

import secrets
from collections.abc import Sequence

from gateway.backends import wire
from gateway.backends.budget import Budget
from gateway.backends.failures import BackendFailed, as_problem
from gateway.backends.wire import Backend, Backends, on_all
from gateway.collections.generations import Generations
from gateway.collections.history import History, expect_own_build, owner_of_next
from gateway.collections.publish_jobs import PublishJobs
from gateway.collections.write_order import CollectionLocks
from services.chassis.deadlines import current_deadline
from services.chassis.errors import BadInput, Conflict
from services.contracts.collections import (
    BeginCollection,
    CollectionBegun,
    CollectionDeclaration,
    CollectionList,
    CollectionState,
    CollectionView,
    build_mark,
)
from services.contracts.generations import generation_of, number_of
from services.keys.key_ring import Principal

# Generation numbers to try when concurrent callers take them.
ATTEMPTS = 8
# The mark of a generation's build, and its owner.
Marks = tuple[str | None, str | None]


class Collections:
    """Creates and removes generations. Keeps no state, so repeating a call recovers from a failure."""

    def __init__(
        self, backends: Backends, generations: Generations, locks: CollectionLocks, publications: PublishJobs
    ) -> None:
        self._backends = backends
        self._generations = generations
        self._locks = locks
        self._publications = publications

    async def begin(self, name: str, wanted: BeginCollection, caller: Principal | None) -> CollectionBegun:
        """Returns a generation to send documents to. Needs every backend that it lives on.

        It is the one of the caller's build, without a build the live one, if its declaration is the same and it lives
        on all backends that are named; else a new one. Never continues another caller's unpublished generation. Raises
        Forbidden for a new generation of a collection, or for a build, that is not the caller's.
        """
        async with self._locks.of(name):
            return await self._begin(name, wanted, caller, Budget.within(current_deadline()))

    async def _begin(
        self, name: str, wanted: BeginCollection, caller: Principal | None, budget: Budget
    ) -> CollectionBegun:
        named = None if wanted.backends is None else tuple(sorted(self._with_document_store(wanted.backends)))
        declaration = CollectionDeclaration(
            presets=wanted.presets,
            metadata=wanted.metadata,
            backends=named,
            expansions=wanted.expansions,
            pipeline=wanted.pipeline,
        )

        def needed(history: History) -> frozenset[str]:
            generation = _existing_generation(history, wanted, declaration)
            if generation is None:
                return self._where(self._new_declaration(history, wanted, declaration))
            return history.backends(generation)

        await self._generations.require(name, needed, budget.remaining_s())
        number = 0
        for _ in range(ATTEMPTS):
            history, token = self._generations.history(name), wanted.build
            expect_own_build(history, token, caller)
            generation = _existing_generation(history, wanted, declaration)
            if created := generation is None:
                owner = owner_of_next(history, caller, wanted.owner)
                token = token or secrets.token_hex(16)
                number = max(number, history.highest) + 1
                marks: Marks = (build_mark(token), owner)
                begun = self._new_declaration(history, wanted, declaration)
                generation = await self._create(generation_of(name, number), begun, marks, budget)
            else:
                if wanted.owner not in (None, history.owner(generation)):
                    raise Conflict(
                        f"{generation} is there already, and its owner stays: send `owner` with `new_generation`."
                    )
                marks = (history.build(generation), history.owner(generation))
                begun = self._without_default(history.declared_on(generation, history.backends(generation)))
                await self._declare(generation, begun, marks, budget)
            await self._generations.refresh(budget.remaining_s())
            if generation is None:  # a concurrent caller took the number, perhaps for the same build
                continue
            if not self._generations.history(name).held_by_all(generation):
                await self._wait_for(self._where(begun), name, budget)
            if not self._generations.history(name).held_by_all(generation):
                raise Conflict(f"{generation} was removed while it was being begun; PUT /v1/collections/{name} again.")
            return CollectionBegun(
                collection=name, generation=generation, created=created, live=history.live, build=token
            )
        raise Conflict(f"Others keep beginning generations of '{name}' at the same moment; try again.")

    async def _wait_for(self, backends: frozenset[str], name: str, budget: Budget) -> None:
        """Polls these backends again, with more time than before: a busy one may not have answered yet."""
        await self._generations.require(name, lambda _: backends, budget.remaining_s())

    async def _declare(self, generation: str, declaration: CollectionDeclaration, marks: Marks, budget: Budget) -> None:
        await on_all(
            self._backends.named(self._where(declaration)),
            lambda backend: wire.declare(backend, generation, declaration, *marks, budget.remaining_s()),
        )

    async def _create(
        self, generation: str, declaration: CollectionDeclaration, marks: Marks, budget: Budget
    ) -> str | None:
        """Creates a generation, or returns None if its number is taken: the document store decides a race, as all live
        on it; without one the first backend by name does."""
        backends = self._backends.named(self._where(declaration))
        if not backends:
            known = ", ".join(sorted(backend.name for backend in self._backends.storing))
            raise BadInput(f"backends: name those that the collection is to live on; there are: {known}.")
        first = self._backends.document_store or min(backends, key=lambda backend: backend.name)
        declaration = self._without_default(declaration)
        try:
            await wire.declare(first, generation, declaration, *marks, budget.remaining_s())
        except BackendFailed as failure:
            if failure.other_build or failure.stamp_differs:
                return None
            raise as_problem(failure) from failure
        await self._declare(generation, declaration, marks, budget)
        return generation

    def _new_declaration(
        self, history: History, wanted: BeginCollection, declaration: CollectionDeclaration
    ) -> CollectionDeclaration:
        """Returns the declaration of a new generation: beside the backends that a request names it has those of the
        live one that this gateway has, if the two differ in backends only. Without any it names those that are new."""
        if declaration.backends is None:
            backends = self._backends.by_default | self._backends.added
            return declaration.model_copy(update={"backends": tuple(sorted(backends)) or None})
        live = history.live
        if live is None or _continuable(history, wanted) != live or not history.declared_as(live, declaration):
            return declaration
        backends = (history.backends(live) & {*history.by_backend}).union(declaration.backends)
        return declaration.model_copy(update={"backends": tuple(sorted(backends))})

    def _where(self, declaration: CollectionDeclaration) -> frozenset[str]:
        return self._backends.by_default if declaration.backends is None else frozenset(declaration.backends)

    def _without_default(self, declaration: CollectionDeclaration) -> CollectionDeclaration:
        """Leaves out the backends where they are the default, so that an export fits a gateway that names others."""
        by_default = self._where(declaration) == self._backends.by_default
        return declaration.model_copy(update={"backends": None}) if by_default else declaration

    def _with_document_store(self, names: Sequence[str]) -> frozenset[str]:
        """Returns the names with that of the document store. Raises BadInput for one that stores nothing."""
        storing = sorted(backend.name for backend in self._backends.storing)
        if unknown := [name for name in names if name not in storing]:
            raise BadInput(
                f"backends: no backend '{unknown[0]}' that stores collections; there are: {', '.join(storing)}."
            )
        store = self._backends.document_store
        return frozenset(names) if store is None else frozenset({*names, store.name})

    async def remove(self, name: str) -> None:
        """Removes every generation of a collection. Needs every backend that may have one, or it would come back."""
        # A generation begun again for the same build between two removals would lose its second half.
        async with self._locks.of(name):
            await self._remove(name, Budget.within(current_deadline()))
            self._publications.forget(name)

    async def discard(self, name: str, token: str, caller: Principal | None) -> None:
        """Removes the generation of a build, if one is there. Raises Conflict where it was published, and Forbidden for
        a build that is not the caller's."""
        async with self._locks.of(name):
            budget = Budget.within(current_deadline())
            await self._generations.require(
                name, lambda history: self._generations.possible_holders(history.name), budget.remaining_s()
            )
            history = self._generations.history(name)
            expect_own_build(history, token, caller)
            generation = history.generation_of_build(build_mark(token))
            if generation is None:
                return
            if generation not in history.builds:
                raise Conflict(f"{generation} was published, so it is no build to discard.")
            await on_all(
                [backend for backend in self._backends.storing if history.held_by(backend.name, generation)],
                lambda backend: wire.remove(
                    backend, generation, history.build(generation), budget.remaining_s(), keep_published=True
                ),
            )
            await self._generations.refresh(budget.remaining_s())

    async def _remove(self, name: str, budget: Budget) -> None:
        await self._generations.require(
            name, lambda history: self._generations.possible_holders(history.name), budget.remaining_s()
        )
        unusable = self._generations.unusable(name)
        if not any(unusable.values()):
            await self._generations.fetch_history(name, budget.remaining_s())
        history = self._generations.history(name)

        async def remove(backend: Backend) -> None:
            held = [(state.generation, state.build) for state in history.by_backend[backend.name]]
            for generation, build in (*held, *((record.generation, None) for record in unusable[backend.name])):
                try:
                    await wire.remove(backend, generation, build, budget.remaining_s())
                except BackendFailed as failure:
                    # A generation begun under the same number meanwhile must stay.
                    if not failure.unknown_generation and not failure.other_build:
                        raise

        await on_all(self._backends.storing, remove)
        await self._generations.refresh(budget.remaining_s())

    async def all(self) -> CollectionList:
        """Polls all backends and returns every collection."""
        await self._generations.refresh(Budget.within(current_deadline()).remaining_s())
        return CollectionList(
            collections=tuple(map(self._view, self._generations.names())),
            backends=tuple(backend.name for backend in self._backends.storing),
        )

    async def one(self, name: str, caller: Principal | None) -> CollectionView:
        """Polls all backends and returns one collection. Who else owns a generation is not shown to a bound key."""
        await self._generations.fetch_history(name, Budget.within(current_deadline()).remaining_s())
        view = self._view(name)
        return view if caller is None or not caller.is_bound else _without_others(view, caller.id)

    def _view(self, name: str) -> CollectionView:
        return self._generations.view(name).model_copy(update={"publishing": self._publications.shown(name)})


def _continuable(history: History, wanted: BeginCollection) -> str | None:
    """Returns the generation that a request continues if that is declared as it asks."""
    if wanted.build is None:
        return None if wanted.new_generation else history.live
    own = history.generation_of_build(build_mark(wanted.build))
    if own is not None and history.live is not None and number_of(own) < number_of(history.live):
        return None
    return None if wanted.new_generation and own == history.live else own


def _existing_generation(history: History, wanted: BeginCollection, declaration: CollectionDeclaration) -> str | None:
    """Returns the existing generation that a request continues, or None if a new one is needed."""
    generation = _continuable(history, wanted)
    if generation is None or not history.declared_as(generation, declaration):
        return None
    # One that lives on a backend which this gateway no longer has is continued by requests that name no backends alone.
    if declaration.backends and not {*declaration.backends} <= history.backends(generation) <= {*history.by_backend}:
        return None
    # An incomplete build is completed. A live generation that a backend lacks (its engine was replaced) is not:
    # searches would see it half-built.
    return generation if generation != history.live or history.held_by_all(generation) else None


def _without_others(view: CollectionView, key: str) -> CollectionView:
    def shown(state: CollectionState) -> CollectionState:
        return state if state.owner == key else state.model_copy(update={"owner": None})

    backends = (part.model_copy(update={"generations": tuple(map(shown, part.generations))}) for part in view.backends)
    return view.model_copy(update={"backends": tuple(backends)})
