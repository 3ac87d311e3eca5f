"""Decides which generation of a collection is live, being built, or was live before, and whose it is.

Pure: polls no backend. The services keep the owner with each generation, so every gateway knows it after a restart.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from services.chassis.errors import Forbidden
from services.contracts.base import Language
from services.contracts.collections import CollectionDeclaration, CollectionState, build_mark
from services.contracts.generations import number_of
from services.keys.key_ring import Principal


@dataclass(frozen=True)
class History:
    """The generations of one collection in every backend."""

    name: str
    by_backend: Mapping[str, tuple[CollectionState, ...]]
    by_default: frozenset[str]  # the backends of a generation whose declaration names none
    unusable: frozenset[str] = frozenset()  # generations that some backend cannot open
    # The time by each backend's own clock (Unix seconds) when it reported its states; None where it does not report it.
    clocks: Mapping[str, float | None] = field(default_factory=dict)
    # Fingerprints of pipelines that were found to fit a generation: finding it took a tenth of a search's time.
    fitting: set[tuple[str, str]] = field(default_factory=set, compare=False, repr=False)

    @property
    def states(self) -> list[CollectionState]:
        return [state for states in self.by_backend.values() for state in states]

    @property
    def generations(self) -> list[str]:
        """The generations of any backend, in ascending order of number."""
        return sorted({state.generation for state in self.states}, key=number_of)

    @cached_property
    def live(self) -> str | None:
        """The generation that searches use: the highest that any backend has published.

        A backend keeps its publication when another generation, which does not live on it, is published later: that one
        counts no more.
        """
        published = {
            (name, state.generation) for name, held in self.by_backend.items() for state in held if state.published
        }
        if len({generation for _, generation in published}) > 1:
            published = {(name, held) for name, held in published if not self._left_behind(name, held)}
        return max((generation for _, generation in published), key=number_of, default=None)

    @property
    def builds(self) -> list[str]:
        """The generations above the live one that were never live, in ascending order of number.

        A generation that was rolled back is not among them: it is not being built.
        """
        live = self.live
        above = 0 if live is None else number_of(live)
        return [build for build in self.generations if number_of(build) > above and not self._was_live(build)]

    @property
    def building(self) -> str | None:
        """The build with the highest number."""
        return max(self.builds, key=number_of, default=None)

    @property
    def previous(self) -> str | None:
        """The target of a rollback: of the generations below the live one that all their backends have and once
        published, the one that was live last.

        It need not have the highest number: after a rollback a lower one was live last.
        """
        live = self.live
        below = [older for older in self.generations if live is not None and number_of(older) < number_of(live)]
        whole = [older for older in below if self.held_by_all(older) and self._was_live_everywhere(older)]
        return max(whole, key=lambda older: (self._place(older), number_of(older)), default=None)

    @property
    def highest(self) -> int:
        """The highest number in any backend, including generations that cannot be opened; 0 without any."""
        return max((number_of(known) for known in {*self.generations, *self.unusable}), default=0)

    def holders(self, generation: str) -> list[CollectionState]:
        """Returns the state of a generation in each backend that has it."""
        return [state for state in self.states if state.generation == generation]

    def backends(self, generation: str) -> frozenset[str]:
        """Returns the names of the backends that the generation lives on, also of those that have lost it."""
        backends: set[str] = set()
        for backend, states in self.by_backend.items():
            for state in states:
                if state.generation == generation:
                    # The default may have been another when the generation was begun.
                    backends.update(state.declaration.backends or {*self.by_default, backend})
        return frozenset(backends)

    def held_by(self, backend: str, generation: str) -> bool:
        return any(state.generation == generation for state in self.by_backend.get(backend, ()))

    def held_by_all(self, generation: str) -> bool:
        """Returns whether every backend that the generation lives on has it."""
        backends = self.backends(generation)
        return bool(backends) and all(self.held_by(backend, generation) for backend in backends)

    def declared_as(self, generation: str, declaration: CollectionDeclaration) -> bool:
        """Returns whether the generation has this declaration, but for backends, in every backend that has it."""
        declarations = (state.declaration for state in self.holders(generation))
        return all(held.model_copy(update={"backends": declaration.backends}) == declaration for held in declarations)

    def declared_on(self, generation: str, backends: frozenset[str]) -> CollectionDeclaration:
        """Returns the declaration of a generation with these backends."""
        return self.holders(generation)[0].declaration.model_copy(update={"backends": tuple(sorted(backends))})

    def language(self, generation: str, preset: str | None) -> Language:
        """Returns the language of a preset of the generation, or of its first one."""
        return next((state.declaration.language_of(preset) for state in self.holders(generation)), "english")

    def build(self, generation: str) -> str | None:
        """Returns the mark of the generation's build; None for one made before builds had marks."""
        return next((state.build for state in self.holders(generation)), None)

    def owner(self, generation: str) -> str | None:
        """Returns who owned the collection when the generation was begun; None where no service has noted it."""
        return next((state.owner for state in self.holders(generation) if state.owner is not None), None)

    def generation_of_build(self, mark: str) -> str | None:
        """Returns the highest generation that belongs to this build in every backend that has it."""
        own = [build for build in self.generations if all(state.build == mark for state in self.holders(build))]
        return max(own, key=number_of, default=None)

    def other_targets(self, target: str) -> list[str]:
        """Returns the other generations that a write to `target`, live when the write began, must reach: the one that
        has become live since, and the builds, which would lack the write when published."""
        live = self.live or target
        lowest = min(number_of(target), number_of(live))
        return [
            other
            for other in self.generations
            if other != target and (other == live or (number_of(other) > lowest and not self._rolled_back(other)))
        ]

    def live_age_s(self) -> float | None:
        """Returns for how many seconds the live generation is live: the least that a backend reports by its own clock.

        None until all have published it, and where one does not report the time.
        """
        live = self.live
        if live is None or not self.held_by_all(live):
            return None
        ages: list[float] = []
        for backend in self.backends(live):
            state = next(state for state in self.by_backend[backend] if state.generation == live)
            now = self.clocks.get(backend)
            if now is None or state.published_at is None or not state.published:
                return None
            ages.append(max(0.0, now - state.published_at))
        return min(ages, default=None)

    def superseded(self, *, keep_previous: bool) -> frozenset[str]:
        """Returns the generations below the live one that nothing makes live again: those that not all their
        backends have published, and those below the target of a rollback. Without `keep_previous` all below the live
        one."""
        live = self.live
        if live is None:
            return frozenset()
        lowest = self.previous if keep_previous else live
        kept_from = 0 if lowest is None else number_of(lowest)
        below = [older for older in self.generations if number_of(older) < number_of(live)]
        return frozenset(
            older for older in below if number_of(older) < kept_from or not self._was_live_everywhere(older)
        )

    def number_to_publish(self, generation: str) -> int:
        """Returns the number of the publication of a generation: one above the highest of any other. Where it has such
        a number already, that one: repeating a publication in the backends that missed it changes no number."""
        own = self._place(generation)
        others = max((self._place(other) for other in self.generations if other != generation), default=0)
        return own if own > others else others + 1

    def _rolled_back(self, generation: str) -> bool:
        """Returns whether the live generation was published after this one. `published_at` alone does not show it: it
        is set just before publishing, and stays set if the service ends in between."""
        live = self.live
        return live is not None and self._was_live(generation) and self._place(generation) <= self._place(live)

    def _left_behind(self, backend: str, generation: str) -> bool:
        """Returns whether a generation that does not live on this backend was published after this one."""
        place = self._place(generation)
        return any(self._place(other) > place and backend not in self.backends(other) for other in self.generations)

    def _was_live(self, generation: str) -> bool:
        return any(state.published_at is not None for state in self.holders(generation))

    def _place(self, generation: str) -> int:
        """Returns the place of a generation's last publication in the order of all: the number decides, because the
        clocks of services differ and go back."""
        return max((state.publication or 0 for state in self.holders(generation)), default=0)

    def _was_live_everywhere(self, generation: str) -> bool:
        held = (states for backend, states in self.by_backend.items() if backend in self.backends(generation))
        mine = (state for states in held for state in states if state.generation == generation)
        return all(state.published_at is not None for state in mine)


def owner_of_next(history: History, caller: Principal | None, wanted: str | None) -> str | None:
    """Returns who owns the next generation: whom the caller wants, else who owns the newest one, else the caller.

    `caller` is None where callers need no key. Raises Forbidden if the caller may not begin one.
    """
    if wanted is not None and caller is not None and not caller.has("admin"):
        raise Forbidden("owner: giving a collection to another key needs a key with the scope admin.")
    if not history.highest:
        return wanted or (None if caller is None else caller.id)
    newest = history.generations[-1] if history.generations else None
    owner = None if newest is None else history.owner(newest)
    expect_owner(history.name, owner, caller)
    return wanted or owner or (None if caller is None else caller.id)


def expect_own_build(history: History, token: str | None, caller: Principal | None) -> None:
    """Raises Forbidden if a build that a request names was begun under another owner than the caller.

    Its token alone does not show who began it: a caller may have chosen one that others guess.
    """
    generation = None if token is None else history.generation_of_build(build_mark(token))
    if generation is not None:
        expect_owner(history.name, history.owner(generation), caller)


def expect_owner(name: str, owner: str | None, caller: Principal | None) -> None:
    """Raises Forbidden unless the caller owns the collection, or may change everybody's."""
    if caller is None or caller.has("admin") or caller.id == owner:
        return
    whose = "has no owner that is known" if owner is None else "belongs to another key"
    raise Forbidden(
        f"Collection '{name}' {whose}, and its generations are not this key's: use a key with the scope admin, or ask "
        f'who has one to PUT /v1/collections/{name} with {{"new_generation": true, "owner": "{caller.id}"}}.'
    )
