"""Answers searches: resolves the generation, walks the pipeline, and renders the result."""

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress

from gateway.backends.budget import Budget
from gateway.backends.wire import Backends
from gateway.collections.generations import Generations
from gateway.collections.history import History
from gateway.families import least_score
from gateway.search.admission import Admission
from gateway.search.catalog import Catalog
from gateway.search.explaining import explain, places_of
from gateway.search.plan import WalkPlan, refuse_missing_bounds
from gateway.search.sources import GenerationMovedError
from gateway.search.walk import include, walk
from gateway.search.walked import WalkContext, Walked
from services.chassis.admission.limits import WAIT
from services.chassis.deadlines import current_deadline
from services.chassis.errors import BadInput, Unavailable, UnknownPipeline
from services.chassis.instruments import Instruments
from services.chassis.requests.telemetry import record_ms, recorded_ms, request_id
from services.contracts.generations import name_of
from services.contracts.pipelines import GATEWAY_WAIT, Pipeline, Retrieve
from services.contracts.query import SearchAnswer, SearchRequest, StageCandidates

# The pipelines of a search that names none, where the collection names none either: the first that it can serve.
DEFAULTS = ("hybrid-colbert", "hybrid", "bm25")


class Executor:
    """Answers searches over all collections."""

    def __init__(
        self,
        backends: Backends,
        generations: Generations,
        catalog: Catalog,
        admission: Admission,
        instruments: Instruments,
    ) -> None:
        self._backends = backends
        self._generations = generations
        self._catalog = catalog
        self._admission = admission
        self._instruments = instruments

    async def search(self, collection: str, request: SearchRequest, client: str = "") -> SearchAnswer:
        """Returns the answer within the deadline of the current request. Clients take turns where searches wait."""
        started = time.perf_counter()
        identity = request_id()
        plan = self._catalog.browsing()
        if request.query:
            plan = self._catalog.resolve(request.pipeline or self.default(collection))
        walked = await self._walk(collection, plan, request, client, Budget.within(current_deadline()))
        self._record(walked, plan, named=not isinstance(request.pipeline, Pipeline))
        waited_ms = recorded_ms(WAIT)
        total_ms = (time.perf_counter() - started) * 1000 - waited_ms
        timings_ms = {**_stages_and_parts(walked), GATEWAY_WAIT: waited_ms, "total": total_ms}
        return SearchAnswer.model_validate(
            {
                "collection": walked.generation,
                "pipeline": {"name": plan.pipeline.name, "fingerprint": plan.fingerprint},
                "request_id": identity,
                "hits": _hits(request, walked),
                "page": walked.page,
                "matches": walked.counts,
                "candidates": self._candidates(plan, walked) if request.explain == "candidates" else None,
                "degraded": [stage.degradation for stage in walked.degraded],
                "models": walked.models,
                "timings_ms": {stage: round(ms, 3) for stage, ms in timings_ms.items()},
            }
        )

    async def _walk(
        self, collection: str, plan: WalkPlan, request: SearchRequest, client: str, budget: Budget
    ) -> Walked:
        for may_move in (True, False):
            generation = await self._generations.searchable(collection, budget.share_s(1.0, 1.0))
            context = WalkContext(
                self._backends, self._generations, self._admission, client, request, generation, budget, may_move
            )
            self._expect_to_fit(generation, plan)
            try:
                return await include(context, plan, await explain(context, plan, await walk(context, plan)))
            except GenerationMovedError:
                continue
        raise Unavailable(f"Collection '{collection}' moved on twice meanwhile; try again.", retry_after_s=1)

    def served(self, collection: str) -> tuple[str, ...]:
        """Returns the names of the pipelines that a collection can serve, in order; all where none is live or fits."""
        names = [view.name for view in self._catalog.views().pipelines]
        return tuple(self._fitting(collection, names)) or tuple(names)

    def default(self, collection: str) -> str:
        """Returns the name of the pipeline by which a collection is searched: declared, else the first of DEFAULTS that
        it can serve."""
        live = self._generations.live(collection)
        holders = () if live is None else self._generations.history(name_of(live)).holders(live)
        declared = next((state.declaration.pipeline for state in holders), None)
        return declared or next(self._fitting(collection, DEFAULTS), DEFAULTS[-1])

    def _fitting(self, collection: str, names: Iterable[str]) -> Iterator[str]:
        live = self._generations.live(collection)
        if live is None:
            return
        for name in names:
            with suppress(BadInput, UnknownPipeline):
                self._expect_to_fit(live, self._catalog.resolve(name))
                yield name

    def _expect_to_fit(self, generation: str, plan: WalkPlan) -> None:
        """Raises BadInput if the generation does not live on a storing backend of the pipeline, does not declare one of
        its presets, or has no least score there that a fuse needs."""
        history = self._generations.history(name_of(generation))
        backends = history.backends(generation)
        elsewhere = {backend.name for backend in self._backends.storing}.difference(backends)
        if missing := [name for name in plan.pipeline.backends if name in elsewhere]:
            wanted = json.dumps(sorted({*backends, *missing}))
            raise BadInput(
                f"collection '{history.name}' does not live on '{missing[0]}'; PUT /v1/collections/{history.name} with "
                f'"backends": {wanted} begins a generation that does; then publish its build with "fill": true.'
            )
        presets = [preset for state in history.holders(generation)[:1] for preset in state.declaration.presets]
        declared = [preset if isinstance(preset, str) else preset.name for preset in presets]
        for preset in [leg.stage.preset for leg in plan.source.retrieves if leg.stage.preset not in (None, *declared)]:
            known = ", ".join(declared)
            raise BadInput(f"preset: {preset} is not declared for this collection; declared are: {known}.")
        refuse_missing_bounds(plan, generation, self._unbounded(history, generation))

    def _unbounded(self, history: History, generation: str) -> set[str]:
        """Returns the backends whose scores over this generation have no least one."""
        return {
            backend
            for backend, states in history.by_backend.items()
            for state in states
            if state.generation == generation and least_score(self._backends[backend].family, state.stamp) is None
        }

    def _candidates(self, plan: WalkPlan, walked: Walked) -> dict[str, StageCandidates]:
        history = self._generations.history(name_of(walked.generation))
        unbounded = self._unbounded(history, walked.generation)
        stages = {step.id: step.stage for step in plan.pipeline.identified}
        without = {name for name, stage in stages.items() if isinstance(stage, Retrieve) and stage.backend in unbounded}
        return {
            stage: StageCandidates(
                ranking=output,
                least_score=None if stage in without else plan.least_scores.get(stage),
                model_scores=walked.reranked[stage].scores if stage in walked.reranked else None,
                weight=walked.reranked[stage].weight if stage in walked.reranked else None,
            )
            for stage, output in walked.outputs.items()
        }

    def _record(self, walked: Walked, plan: WalkPlan, *, named: bool) -> None:
        kinds = {} if named else {step.id: step.stage.kind for step in plan.pipeline.identified}
        for stage, ms in walked.timings_ms.items():
            # These become labels of metrics: ids that callers choose would give them unbounded values.
            record_ms(kinds.get(stage, stage), ms)
        for degraded in walked.degraded:
            self._instruments.degraded.labels(degraded.kind, degraded.degradation.reason).inc()


def _stages_and_parts(walked: Walked) -> dict[str, float]:
    """Returns the times of stages, each before its parts. A stage `a.b` leaves out the part `b` of a stage `a`."""
    shown: dict[str, float] = {}
    for stage, ms in walked.timings_ms.items():
        shown[stage] = ms
        for part, part_ms in walked.parts_ms.get(stage, {}).items():
            if f"{stage}.{part}" not in walked.timings_ms:
                shown[f"{stage}.{part}"] = part_ms
    return shown


def _hits(request: SearchRequest, walked: Walked) -> list[dict[str, object]]:
    """Returns the fields of each SearchHit: the answer makes all of them at once, in a third of the time."""
    places = places_of(walked) if request.explain else {}
    hits: list[dict[str, object]] = []
    for rank, ranked in enumerate(walked.ranking, start=1 + (request.offset or 0)):
        hit: dict[str, object] = {"id": ranked.id, "rank": rank, "score": ranked.score}
        if (document := walked.documents.get(ranked.id)) is not None:
            hit |= {part: getattr(document, part) for part in request.include}
        if (highlights := walked.highlights.get(ranked.id)) is not None:
            hit["highlights"] = highlights
        if (stages := places.get(ranked.id)) is not None:
            hit["stages"] = stages
        hits.append(hit)
    return hits
