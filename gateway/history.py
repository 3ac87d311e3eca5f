"""Decides which generation of a collection is live, being built, or was live before. Pure: polls no backend."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from services.contracts.collections import CollectionDeclaration, CollectionState
from services.contracts.generations import number_of


def live_of(states: Iterable[CollectionState]) -> str | None:
    """Returns the live generation: the highest that any backend has published. `states` are of one collection."""
    return max((state.generation for state in states if state.published), key=number_of, default=None)


@dataclass(frozen=True, slots=True)
class History:
    """The generations of one collection in every backend."""

    name: str
    by_backend: Mapping[str, tuple[CollectionState, ...]]
    unusable: frozenset[str] = frozenset()  # generations that some backend cannot open

    @property
    def states(self) -> list[CollectionState]:
        """The states of all backends in one list."""
        return [state for states in self.by_backend.values() for state in states]

    @property
    def generations(self) -> list[str]:
        """The generations of any backend, in ascending order of number."""
        return sorted({state.generation for state in self.states}, key=number_of)

    @property
    def live(self) -> str | None:
        """The generation that searches use."""
        return live_of(self.states)

    @property
    def builds(self) -> list[str]:
        """The generations above the live one that were never live, in ascending order of number.

        A generation that was rolled back is not among them: it is not being built.
        """
        live = self.live
        above = 0 if live is None else number_of(live)
        return [one for one in self.generations if number_of(one) > above and not self._was_live(one)]

    @property
    def building(self) -> str | None:
        """The build with the highest number."""
        return max(self.builds, key=number_of, default=None)

    @property
    def previous(self) -> str | None:
        """The target of a rollback: of the generations below the live one that every backend has and once published,
        the one that was live last.

        It need not have the highest number: after a rollback a lower one was live last.
        """
        live = self.live
        below = [one for one in self.generations if live is not None and number_of(one) < number_of(live)]
        whole = [one for one in below if self.held_by_all(one) and self._was_live_everywhere(one)]
        return max(whole, key=lambda one: (self._published_at(one), number_of(one)), default=None)

    @property
    def highest(self) -> int:
        """The highest number in any backend, including generations that cannot be opened; 0 without any."""
        return max((number_of(one) for one in {*self.generations, *self.unusable}), default=0)

    def holders(self, generation: str) -> list[CollectionState]:
        """Returns the state of a generation in each backend that has it."""
        return [state for state in self.states if state.generation == generation]

    def held_by(self, backend: str, generation: str) -> bool:
        """Returns whether this backend has the generation."""
        return any(state.generation == generation for state in self.by_backend[backend])

    def held_by_all(self, generation: str) -> bool:
        """Returns whether every backend has the generation."""
        return all(self.held_by(backend, generation) for backend in self.by_backend)

    def declared_as(self, generation: str, declaration: CollectionDeclaration) -> bool:
        """Returns whether every backend that has the generation has this declaration of it."""
        return all(state.declaration == declaration for state in self.holders(generation))

    def build(self, generation: str) -> str | None:
        """Returns the mark of the generation's build; None for one made before builds had marks."""
        return next((state.build for state in self.holders(generation)), None)

    def owner(self, generation: str) -> str | None:
        """Returns who owned the collection when the generation was begun; None where no service has noted it."""
        return next((state.owner for state in self.holders(generation) if state.owner is not None), None)

    def generation_of_build(self, mark: str) -> str | None:
        """Returns the highest generation that belongs to this build in every backend that has it."""
        own = [one for one in self.generations if all(state.build == mark for state in self.holders(one))]
        return max(own, key=number_of, default=None)

    def other_targets(self, target: str) -> list[str]:
        """Returns the other generations that a write to `target`, live when the write began, must reach: the one that
        has become live since, and the builds, which would lack the write when published."""
        live = self.live or target
        lowest = min(number_of(target), number_of(live))
        return [
            one
            for one in self.generations
            if one != target and (one == live or (number_of(one) > lowest and not self._rolled_back(one)))
        ]

    def live_since(self) -> float | None:
        """Returns when the last backend published the live generation (Unix seconds); None if one has not yet."""
        live = self.live
        if live is None or not self.held_by_all(live):
            return None
        holders = self.holders(live)
        times = [state.published_at for state in holders if state.published and state.published_at is not None]
        return max(times) if len(times) == len(holders) else None

    def _rolled_back(self, generation: str) -> bool:
        """Returns whether any backend published the live generation after this one. `published_at` alone does not show
        it: it is set just before publishing, and stays set if the service ends in between."""
        for states in self.by_backend.values():
            since = next((state.published_at for state in states if state.generation == self.live), None)
            then = next((state.published_at for state in states if state.generation == generation), None)
            if then is not None and since is not None and then <= since:
                return True
        return False

    def _was_live(self, generation: str) -> bool:
        return any(state.published_at is not None for state in self.holders(generation))

    def _published_at(self, generation: str) -> float:
        return max((state.published_at or 0.0 for state in self.holders(generation)), default=0.0)

    def _was_live_everywhere(self, generation: str) -> bool:
        return all(state.published_at is not None for state in self.holders(generation))
