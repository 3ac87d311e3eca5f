"""Owns the target of a write: the generation that it goes to, and the builds above it that need it too."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from gateway.backends.failures import BackendFailed
from gateway.backends.wire import Backend
from gateway.collections.history import History
from gateway.collections.publishing import build_needed_message, removal_remark
from services.chassis.errors import BuildConflict, BuildNeeded, Superseded
from services.contracts.collections import build_mark
from services.contracts.documents import DeleteReport, IndexReport, ItemError
from services.contracts.generations import number_of

Report = TypeVar("Report", IndexReport, DeleteReport)


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """The target of one call of a write: generation, build (None: any), version, and the seconds that it may take."""

    generation: str
    build: str | None
    version: int
    timeout_s: float


def target_generation(history: History, token: str | None) -> str:
    """Returns the generation that a write goes to. Raises a Conflict that states what to send instead."""
    live, name = history.live, history.name
    if token is None:
        if live is None:
            raise BuildNeeded(build_needed_message(history))
        return live
    own = history.generation_of_build(build_mark(token))
    if own is None:
        raise BuildConflict(
            f"No generation of collection '{name}' belongs to this build{removal_remark(history)}. PUT "
            f"/v1/collections/{name} with the same `build` begins one; without a `build` documents go to the live "
            "generation."
        )
    if live is not None and number_of(own) < number_of(live):
        raise Superseded(
            f"{own}, which this build began, is older than {live}, which is live now. PUT /v1/collections/{name} again "
            "to begin a newer one."
        )
    return own


async def write_to_build(
    history: History,
    backend: Backend,
    result: Report | BackendFailed | None,
    part: WriteTarget,
    write: Callable[[Backend, WriteTarget], Awaitable[Report]],
) -> tuple[Backend, Report | BackendFailed | None]:
    """Writes to a build. Returns the backend's result for the live generation, None where that does not live on it,
    with the build's errors added."""
    if isinstance(result, BackendFailed):
        return backend, result
    if not history.held_by(backend.name, part.generation):
        return backend, result
    try:
        built = await write(backend, part)
    except BackendFailed as failure:
        # Removed, begun again, or built by another model: the backend cannot publish this build, so nothing is lost.
        passing = failure.unknown_generation or failure.other_build or failure.stamp_differs
        return backend, result if passing else failure
    return backend, _merge_reports(result, built, part.generation)


def _merge_reports(live: Report | None, built: Report, build: str) -> Report:
    """Adds the errors of a build, with its name, to the report of the live generation, if that lives there."""
    named: list[ItemError] = [
        error.model_copy(update={"reason": f"In {build}, which is being built: {error.reason}"})
        for error in built.errors
    ]
    if live is None:
        return built.model_copy(update={"errors": tuple(named)})
    errors: Sequence[ItemError] = live.errors
    latest = max(live.latest_version or 0, built.latest_version or 0) or None
    return live.model_copy(update={"errors": (*errors, *named), "latest_version": latest})
