"""Answers searches: resolves the generation, walks the pipeline, and renders the result."""

import asyncio
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress

from gateway.backends.budget import Budget
from gateway.backends.wire import Backends
from gateway.collections.generations import Generations
from gateway.instruments import OTHER, GatewayInstruments
from gateway.online.journal import Journal
from gateway.search.admission import Admission
from gateway.search.catalog import Catalog
from gateway.search.experiments import Assigned, Shown, is_failure
from gateway.search.explaining import places_of
from gateway.search.fitting import expect_to_fit, unbounded_backends
from gateway.search.plan import WalkPlan
from gateway.search.sources import GenerationMovedError
from gateway.search.walk import walk
from gateway.search.walked import WalkContext, Walked, elapsed_ms
from services.chassis.admission.limits import WAIT
from services.chassis.deadlines import current_deadline
from services.chassis.errors import BadInput, DeadlineExceeded, ProblemError, Unavailable, UnknownPipeline
from services.chassis.requests.spans import annotate, is_recorded
from services.chassis.requests.telemetry import note, record_ms, recorded_ms, request_id
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
        instruments: GatewayInstruments,
        journal: Journal | None = None,
        *,
        trace_queries: bool = False,
    ) -> None:
        """`journal`: keeps what experiments show, if the catalog has any. `trace_queries`: traces hold queries."""
        self._backends = backends
        self._generations = generations
        self._catalog = catalog
        self._admission = admission
        self._instruments = instruments
        self._journal = journal
        self._trace_queries = trace_queries

    async def search(
        self, collection: str, request: SearchRequest, client: str = "", unit: str | None = None
    ) -> SearchAnswer:
        """Returns the answer within the deadline of the current request. Clients take turns where searches wait.

        `unit`: whose search it is, if the pipeline is an experiment.
        """
        started = time.perf_counter()
        plan, assigned = self._asked(collection, request, unit)
        try:
            shown = await self._shown(collection, request, client, plan, assigned)
        except (ProblemError, asyncio.CancelledError) as error:
            # Cancelled: the caller has gone, or the deadline of the whole request has passed.
            problem = error if isinstance(error, ProblemError) else DeadlineExceeded("")
            failed = is_failure(problem) if error is problem else not current_deadline().remaining_ms
            if assigned is not None and self._journal is not None and failed:
                ms = elapsed_ms(started)
                self._journal.expose(assigned.exposure(collection, request, ms, None, problem.kind))
            raise
        waited_ms = recorded_ms(WAIT)
        ms = elapsed_ms(started) - waited_ms
        if assigned is not None and self._journal is not None:
            self._journal.expose(assigned.exposure(collection, request, ms, shown))
        walked, plan = shown.walked, shown.plan
        name, fingerprint = plan.pipeline.name, plan.fingerprint
        if assigned is not None and shown.teams is not None:
            name, fingerprint = assigned.experiment.pipeline.name, assigned.experiment.fingerprint
        self._record(shown, ms / 1000, collection, name, assigned, named=not isinstance(request.pipeline, Pipeline))
        if is_recorded():
            annotate({"top": request.top, "hits": len(walked.ranking)})
            annotate({"query": request.query} if self._trace_queries else {})
        timings_ms = {**_stages_and_parts(walked), GATEWAY_WAIT: waited_ms, "total": ms}
        return SearchAnswer.model_validate(
            {
                "collection": walked.generation,
                "pipeline": {"name": name, "fingerprint": fingerprint},
                "experiment": None
                if assigned is None
                else {"name": assigned.experiment.pipeline.name, "arm": assigned.arm},
                "request_id": request_id(),
                "hits": _hits(request, shown),
                "page": walked.page,
                "matches": walked.counts,
                "candidates": self._candidates(plan, walked) if request.explain == "candidates" else None,
                "degraded": [stage.degradation for stage in walked.degraded],
                "models": walked.models,
                "timings_ms": {stage: round(ms, 3) for stage, ms in timings_ms.items()},
            }
        )

    def _asked(self, collection: str, request: SearchRequest, unit: str | None) -> tuple[WalkPlan, Assigned | None]:
        """Returns the plan that a request asks for, and the part of its unit where it belongs to an experiment."""
        if not request.query:
            return self._catalog.browsing(), None
        asked = self._catalog.resolve(request.pipeline or self.default(collection))
        if isinstance(asked, WalkPlan):
            return asked, None
        assigned = asked.assign(unit, request)
        if assigned is None:
            self._instruments.outside_experiments.labels(asked.pipeline.name).inc()
        return asked.control, assigned

    async def _shown(
        self, collection: str, request: SearchRequest, client: str, plan: WalkPlan, assigned: Assigned | None
    ) -> Shown:
        budget = Budget.within(current_deadline())
        # Arms, all of them, leave a quarter of the time for what answers where one hangs.
        walking = budget if assigned is None else Budget(budget.ends_at - budget.share_s(1.0, 3.0))
        for may_move in (True, False):
            generation = await self._generations.searchable(collection, budget.share_s(1.0, 1.0))
            context = WalkContext(
                self._backends, self._generations, self._admission, client, request, generation, walking, may_move
            )
            try:
                if assigned is not None:
                    return await assigned.show(context, budget)
                return Shown(await walk(context, plan), plan)
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
                asked = self._catalog.resolve(name)
                for plan in (asked,) if isinstance(asked, WalkPlan) else asked.plans.values():
                    expect_to_fit(self._backends, self._generations.history(name_of(live)), live, plan)
                yield name

    def _candidates(self, plan: WalkPlan, walked: Walked) -> dict[str, StageCandidates]:
        history = self._generations.history(name_of(walked.generation))
        unbounded = unbounded_backends(self._backends, history, walked.generation)
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

    def _record(
        self, shown: Shown, seconds: float, collection: str, name: str, assigned: Assigned | None, *, named: bool
    ) -> None:
        """Records the times, the degradations and whose search it was.

        These become labels of metrics: ids and names that callers choose would give them unbounded values.
        """
        kinds = {} if named else {step.id: step.stage.kind for step in shown.plan.pipeline.identified}
        for stage, ms in shown.walked.timings_ms.items():
            record_ms(kinds.get(stage, stage), ms)
        degraded = []
        for each in shown.walked.degraded:
            stage, reason = each.degradation.stage, each.degradation.reason
            degraded.append(f"{kinds.get(stage, stage)}: {reason}")
            self._instruments.degraded.labels(each.kind, reason).inc()
        experiment, arm = ("", "") if assigned is None else (assigned.experiment.pipeline.name, assigned.arm or "")
        pipeline = name if named else OTHER
        self._instruments.observe_search(seconds, pipeline, collection, experiment, arm, degraded=bool(degraded))
        note(pipeline=pipeline, collection=collection, experiment=experiment, arm=arm, degraded=", ".join(degraded))


def _stages_and_parts(walked: Walked) -> dict[str, float]:
    """Returns the times of stages, each before its parts. A stage `a.b` leaves out the part `b` of a stage `a`."""
    shown: dict[str, float] = {}
    for stage, ms in walked.timings_ms.items():
        shown[stage] = ms
        for part, part_ms in walked.parts_ms.get(stage, {}).items():
            if f"{stage}.{part}" not in walked.timings_ms:
                shown[f"{stage}.{part}"] = part_ms
    return shown


def _hits(request: SearchRequest, shown: Shown) -> list[dict[str, object]]:
    """Returns the fields of each SearchHit: the answer makes all of them at once, in a third of the time."""
    walked, teams = shown.walked, shown.teams or {}
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
        if (team := teams.get(ranked.id)) is not None:
            hit["team"] = team
        hits.append(hit)
    return hits
