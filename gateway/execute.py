"""A search from the parsed request to the answer: resolves the generation once, walks, and says what was degraded."""

import time

from gateway.backends import Backends
from gateway.budget import Budget
from gateway.catalog import Catalog
from gateway.generations import Generations
from gateway.walk import GenerationMovedError, Walk
from services.chassis.deadlines import current_deadline
from services.chassis.errors import Unavailable
from services.chassis.instruments import Instruments
from services.chassis.telemetry import record_ms, request_id
from services.contracts.documents import Document
from services.contracts.pipelines import Pipeline
from services.contracts.query import PipelineRef, SearchAnswer, SearchHit, SearchRequest, StagePlace
from services.ranking.fusion import Ranking


class Executor:
    """Answers searches."""

    def __init__(
        self, backends: Backends, generations: Generations, catalog: Catalog, instruments: Instruments
    ) -> None:
        self._backends = backends
        self._generations = generations
        self._catalog = catalog
        self._instruments = instruments

    async def search(self, collection: str, request: SearchRequest) -> SearchAnswer:
        """The answer, inside the deadline of the request being served."""
        started = time.perf_counter()
        identity = request_id()
        pipeline = self._catalog.resolve(request.pipeline)
        budget = Budget.within(current_deadline())
        walked, ranking, generation = await self._walked(collection, pipeline, request, budget)
        documents = await walked.included([one.id for one in ranking])
        self._record(walked, pipeline, named=isinstance(request.pipeline, str))
        timings_ms = {**walked.timings_ms, "total": (time.perf_counter() - started) * 1000}
        return SearchAnswer(
            collection=generation,
            pipeline=PipelineRef(name=pipeline.name, fingerprint=pipeline.fingerprint),
            request_id=identity,
            hits=_hits(request, ranking, documents, walked.outputs),
            degraded=tuple(degradation for _, degradation in walked.degraded),
            models=walked.models,
            timings_ms={stage: round(ms, 3) for stage, ms in timings_ms.items()},
        )

    async def _walked(
        self, collection: str, pipeline: Pipeline, request: SearchRequest, budget: Budget
    ) -> tuple[Walk, Ranking, str]:
        for may_move in (True, False):
            generation = await self._generations.searchable(collection, budget.share_s(1.0, 1.0))
            one = Walk(self._backends, self._generations, pipeline, request, generation, budget, may_move=may_move)
            try:
                return one, await one.run(), generation
            except GenerationMovedError:
                continue
        raise Unavailable(f"Collection '{collection}' moved on twice meanwhile; try again.", retry_after_s=1)

    def _record(self, walked: Walk, pipeline: Pipeline, *, named: bool) -> None:
        kinds = {item.id: item.stage.kind for item in pipeline.identified}
        for stage, ms in walked.timings_ms.items():
            # Metrics are labelled with these: ids that callers make up would be labels without end.
            record_ms(stage if named else kinds.get(stage, stage), ms)
        for kind, degradation in walked.degraded:
            self._instruments.degraded.labels(kind, degradation.reason).inc()


def _hits(
    request: SearchRequest, ranking: Ranking, documents: dict[str, Document], outputs: dict[str, Ranking]
) -> tuple[SearchHit, ...]:
    places: dict[str, dict[str, StagePlace]] = {one.id: {} for one in ranking}
    if request.explain:
        for stage, output in outputs.items():
            for rank, one in enumerate(output, start=1):
                if one.id in places:
                    places[one.id][stage] = StagePlace(rank=rank, score=one.score)
    return tuple(
        SearchHit(
            id=one.id,
            rank=rank,
            score=one.score,
            title=document.title if document and "title" in request.include else None,
            text=document.text if document and "text" in request.include else None,
            metadata=document.metadata if document and "metadata" in request.include else None,
            stages=places[one.id] if request.explain else None,
        )
        for rank, one in enumerate(ranking, start=1)
        for document in [documents.get(one.id)]
    )
