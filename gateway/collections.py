"""Collections begun, listed and removed in every storing backend at once."""

import secrets

from gateway import backends as wire
from gateway.backends import Backends
from gateway.budget import Budget
from gateway.downstream import Backend
from gateway.failures import BackendFailed, as_problem
from gateway.fan_out import left, on_all
from gateway.generations import Generations
from gateway.history import History
from services.chassis.deadlines import current_deadline
from services.chassis.errors import Conflict
from services.contracts.collections import (
    BeginCollection,
    CollectionBegun,
    CollectionDeclaration,
    CollectionList,
    CollectionView,
    build_mark,
)
from services.contracts.generations import generation_of, number_of

# How many numbers are tried when others take them at the same moment.
ATTEMPTS = 8


class Collections:
    """Makes and removes generations; nothing is remembered here, so the same call again is the recovery."""

    def __init__(self, backends: Backends, generations: Generations) -> None:
        self._backends = backends
        self._generations = generations

    async def begin(self, name: str, wanted: BeginCollection) -> CollectionBegun:
        """A generation to send documents to; needs every storing backend.

        The one of the caller's build, or without a build the live one if it was declared the same; else a new one. An
        unpublished one of somebody else is never gone on with.
        """
        budget = Budget.within(current_deadline())
        await self._generations.require_all(left(budget))
        declaration = CollectionDeclaration(presets=wanted.presets, metadata=wanted.metadata)
        number = 0
        for _ in range(ATTEMPTS):
            history, token = self._generations.history(name), wanted.build
            generation = _gone_on_with(history, wanted, declaration)
            if created := generation is None:
                token = token or secrets.token_hex(16)
                number = max(number, history.highest) + 1
                generation = await self._new(generation_of(name, number), declaration, build_mark(token), budget)
            else:
                await self._declare(generation, declaration, history.build(generation), budget)
            await self._generations.refresh(left(budget))
            if generation is None:  # somebody else took the number, perhaps for the same build
                continue
            if not self._generations.history(name).held_by_all(generation):
                raise Conflict(f"{generation} was removed while it was being begun; PUT /v1/collections/{name} again.")
            return CollectionBegun(
                collection=name, generation=generation, created=created, live=history.live, build=token
            )
        raise Conflict(f"Others keep beginning generations of '{name}' at the same moment; try again.")

    async def _declare(
        self, generation: str, declaration: CollectionDeclaration, build: str | None, budget: Budget
    ) -> None:
        await on_all(
            self._backends.storing, lambda backend: wire.declare(backend, generation, declaration, build, left(budget))
        )

    async def _new(self, generation: str, declaration: CollectionDeclaration, build: str, budget: Budget) -> str | None:
        """Makes a generation; None when its number is taken. Whoever makes it at the first backend (by name) has it."""
        first = min(self._backends.storing, key=lambda backend: backend.name)
        try:
            await wire.declare(first, generation, declaration, build, left(budget))
        except BackendFailed as failure:
            if failure.other_build or failure.not_its_own:
                return None
            raise as_problem(failure) from failure
        await self._declare(generation, declaration, build, budget)
        return generation

    async def remove(self, name: str) -> None:
        """Every generation of a collection out of every backend; needs all of them, or it would come back."""
        budget = Budget.within(current_deadline())
        await self._generations.require_all(left(budget))
        unusable = self._generations.unusable(name)
        if not any(unusable.values()):
            await self._generations.known(name, left(budget))
        history = self._generations.history(name)

        async def remove(backend: Backend) -> None:
            held = [(state.generation, state.build) for state in history.by_backend[backend.name]]
            for generation, build in (*held, *((one.generation, None) for one in unusable[backend.name])):
                try:
                    await wire.remove(backend, generation, build, left(budget))
                except BackendFailed as failure:
                    # One that somebody begins under the same number meanwhile is not what was to be removed.
                    if not failure.unknown_generation and not failure.other_build:
                        raise

        await on_all(self._backends.storing, remove)
        await self._generations.refresh(left(budget))

    async def all(self) -> CollectionList:
        """Every collection, as every backend sees it now."""
        await self._generations.refresh(left(Budget.within(current_deadline())))
        return CollectionList(collections=tuple(self._generations.view(name) for name in self._generations.names()))

    async def one(self, name: str) -> CollectionView:
        """One collection, as every backend sees it now."""
        await self._generations.known(name, left(Budget.within(current_deadline())))
        return self._generations.view(name)


def _gone_on_with(history: History, wanted: BeginCollection, declaration: CollectionDeclaration) -> str | None:
    """The generation that is there for what is wanted; None when a new one must be made."""
    live = history.live
    if wanted.build is None:
        candidate = None if wanted.new_generation else live
    else:
        candidate = history.of_build(build_mark(wanted.build))
        if candidate is not None and live is not None and number_of(candidate) < number_of(live):
            candidate = None
        if wanted.new_generation and candidate == live:
            candidate = None
    if candidate is None or not history.declared_as(candidate, declaration):
        return None
    # Begun halfway, a build is completed. A live one that a backend lacks (another engine took its place) must not be:
    # searches would see it half-built.
    return candidate if candidate != live or history.held_by_all(candidate) else None
