"""Which of a collection's generations is live, is being built, was live before: decided from what the backends say."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from services.contracts.collections import CollectionDeclaration, CollectionState
from services.contracts.generations import number_of


def live_of(states: Iterable[CollectionState]) -> str | None:
    """What searches see: the highest generation that any backend has published. `states` are of one name."""
    return max((state.generation for state in states if state.published), key=number_of, default=None)


@dataclass(frozen=True, slots=True)
class History:
    """The generations of one collection as every backend sees them."""

    name: str
    by_backend: Mapping[str, tuple[CollectionState, ...]]
    unusable: frozenset[str] = frozenset()  # generations that some backend holds and cannot open

    @property
    def states(self) -> list[CollectionState]:
        """Of all backends."""
        return [state for states in self.by_backend.values() for state in states]

    @property
    def generations(self) -> list[str]:
        """All that exist anywhere, the lowest number first."""
        return sorted({state.generation for state in self.states}, key=number_of)

    @property
    def live(self) -> str | None:
        """What searches see."""
        return live_of(self.states)

    @property
    def builds(self) -> list[str]:
        """Those above the live one that nobody ever saw, the lowest number first.

        One that was live and was gone back from is none: it is not being built.
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
        """What can be gone back to: of those below the live one, which every backend holds and has had published, the
        one that was live last.

        That is not always the highest: one that was gone back from has a higher number than what took its place.
        """
        live = self.live
        below = [one for one in self.generations if live is not None and number_of(one) < number_of(live)]
        whole = [one for one in below if self.held_by_all(one) and self._was_live_everywhere(one)]
        return max(whole, key=lambda one: (self._published_at(one), number_of(one)), default=None)

    @property
    def highest(self) -> int:
        """The highest number anywhere, what cannot be opened included; 0 without any."""
        return max((number_of(one) for one in {*self.generations, *self.unusable}), default=0)

    def holders(self, generation: str) -> list[CollectionState]:
        """What each backend that holds it says of a generation."""
        return [state for state in self.states if state.generation == generation]

    def held_by(self, backend: str, generation: str) -> bool:
        """Whether this backend holds it."""
        return any(state.generation == generation for state in self.by_backend[backend])

    def held_by_all(self, generation: str) -> bool:
        """Whether every backend holds it."""
        return all(self.held_by(backend, generation) for backend in self.by_backend)

    def declared_as(self, generation: str, declaration: CollectionDeclaration) -> bool:
        """Whether it was declared so wherever it is."""
        return all(state.declaration == declaration for state in self.holders(generation))

    def build(self, generation: str) -> str | None:
        """The mark of the build that it belongs to; None for one made before builds had marks."""
        return next((state.build for state in self.holders(generation)), None)

    def of_build(self, mark: str) -> str | None:
        """The highest generation that belongs to this build wherever it is."""
        own = [one for one in self.generations if all(state.build == mark for state in self.holders(one))]
        return max(own, key=number_of, default=None)

    def written_with(self, target: str) -> list[str]:
        """What a write to `target`, which was live when it began, goes to besides: what has become live meanwhile, by
        publishing or going back, and the builds, which would lose the write otherwise when they are published."""
        live = self.live or target
        lowest = min(number_of(target), number_of(live))
        return [
            one
            for one in self.generations
            if one != target and (one == live or (number_of(one) > lowest and not self._gone_back_from(one)))
        ]

    def live_since(self) -> float | None:
        """Since when every backend has had the live one published (Unix seconds); None while one has not."""
        live = self.live
        if live is None or not self.held_by_all(live):
            return None
        holders = self.holders(live)
        times = [state.published_at for state in holders if state.published and state.published_at is not None]
        return max(times) if len(times) == len(holders) else None

    def _gone_back_from(self, generation: str) -> bool:
        """Whether any backend says that what is live now became so later. That a generation has a time says too little:
        it has one a moment before it is published, or for longer where a service ended in between."""
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
