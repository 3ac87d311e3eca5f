"""Decides whether a generation can serve a pipeline."""

import json

from gateway.backends.wire import Backends
from gateway.collections.history import History
from gateway.families import least_score
from gateway.search.plan import WalkPlan, needing_bounds
from services.chassis.errors import BadInput
from services.contracts.pipelines import Fuse, Retrieve
from services.ranking.stages import needs_least_scores


class UnfitPipeline(BadInput):
    """A collection cannot serve a pipeline, whatever is searched for."""


def expect_to_fit(backends: Backends, history: History, generation: str, plan: WalkPlan) -> None:
    """Raises UnfitPipeline if the generation does not live on a storing backend of the pipeline, does not declare one
    of its presets, or has no least score there that a fuse needs."""
    if (generation, plan.fingerprint) in history.fitting:
        return
    held = history.backends(generation)
    elsewhere = {backend.name for backend in backends.storing}.difference(held)
    if missing := [name for name in plan.pipeline.backends if name in elsewhere]:
        wanted = json.dumps(sorted({*held, *missing}))
        raise UnfitPipeline(
            f"collection '{history.name}' does not live on '{missing[0]}'; PUT /v1/collections/{history.name} with "
            f'"backends": {wanted} begins a generation that does; then publish its build with "fill": true.'
        )
    presets = [preset for state in history.holders(generation)[:1] for preset in state.declaration.presets]
    declared = [preset if isinstance(preset, str) else preset.name for preset in presets]
    for preset in [leg.stage.preset for leg in plan.source.retrieves if leg.stage.preset not in (None, *declared)]:
        known = ", ".join(declared)
        raise UnfitPipeline(f"preset: {preset} is not declared for this collection; declared are: {known}.")
    unbounded = unbounded_backends(backends, history, generation)
    for step in plan.pipeline.identified:
        if isinstance(step.stage, Fuse) and needs_least_scores(step.stage):
            for source in step.stage.inputs:
                if isinstance(source, Retrieve) and source.backend in unbounded:
                    raise UnfitPipeline(
                        f"{needing_bounds(step.id)}; backend '{source.backend}' has none for {generation}, whose "
                        "vectors are not normalised: take min-max or z-score."
                    )
    history.fitting.add((generation, plan.fingerprint))


def unbounded_backends(backends: Backends, history: History, generation: str) -> set[str]:
    """Returns the backends whose scores over a generation have no least one."""
    return {
        backend
        for backend, states in history.by_backend.items()
        for state in states
        if state.generation == generation and least_score(backends[backend].family, state.stamp) is None
    }
