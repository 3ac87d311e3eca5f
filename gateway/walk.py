"""One walk of one query through one pipeline over one generation, and what is known of it afterwards."""

import asyncio
import time
from collections.abc import Sequence
from typing import Literal

from gateway import backends as wire
from gateway.backends import Backends
from gateway.budget import LEAST_CALL_S, Budget
from gateway.catalog import least_score
from gateway.failures import BackendFailed, as_problem, not_held
from gateway.generations import Generations
from gateway.texts import Texts, fitting
from services.chassis.errors import AnswerTooLarge, BadInput, DeadlineExceeded, ProblemError, Unavailable
from services.contracts.documents import Document
from services.contracts.generations import name_of
from services.contracts.pipelines import Cut, Fuse, IdentifiedStage, LaterStage, Pipeline, Rerank, Retrieve, SourceStage
from services.contracts.query import Degradation, Reason, SearchRequest
from services.contracts.rerank import ScoreAnswer, ScoreRequest
from services.contracts.retrieval import RetrievalRequest
from services.ranking.fusion import Leg, Ranking, Scored, mixed, ranked, reciprocal_rank, weighted

StageKind = Literal["retrieve", "fuse", "rerank", "cut", "include"]

# Shares of the time that is left: all retrieves run at once, each re-ranking and the final texts come after them.
RETRIEVAL, RERANKING, INCLUDING = 1.0, 1.0, 0.25


class GenerationMovedError(Exception):
    """The generation was replaced while we walked over it: another walk, over the new one, is due."""


class Walk:
    """Walks once. Failures that the pipeline allows end up in `degraded`, all others are raised as problems."""

    def __init__(
        self,
        backends: Backends,
        generations: Generations,
        pipeline: Pipeline,
        request: SearchRequest,
        generation: str,
        budget: Budget,
        *,
        may_move: bool,
    ) -> None:
        self._backends = backends
        self._generations = generations
        self._pipeline = pipeline
        self._request = request
        self._generation = generation
        self._budget = budget
        self._may_move = may_move
        self._texts = Texts(backends.document_store, generation)
        self.outputs: dict[str, Ranking] = {}
        self.timings_ms: dict[str, float] = {}
        self.degraded: list[tuple[StageKind, Degradation]] = []
        self.models: dict[str, str] = {}

    async def run(self) -> Ranking:
        """The final ranking, at most as long as the request's `top`."""
        stages = list(self._pipeline.identified)
        after = [item for item in stages if isinstance(item.stage, Rerank | Cut)]
        rerankings = sum(isinstance(item.stage, Rerank) for item in after)
        outcomes = await self._retrieve_all(stages, later=self._later(rerankings))
        ranking = self._fused(stages, outcomes)
        for item in after:
            started = time.perf_counter()
            if isinstance(item.stage, Rerank):
                rerankings -= 1
                ranking = await self._reranked(item.id, item.stage, ranking, self._later(rerankings))
            elif isinstance(item.stage, Cut):
                ranking = ranking[: item.stage.top]
            self._done(item.id, ranking, started)
        return ranking[: self._request.top]

    async def included(self, ids: Sequence[str]) -> dict[str, Document]:
        """The documents of the answer, as many as can be had in time; what is lacking is flagged."""
        if not ids or not self._request.include:
            return {}
        started = time.perf_counter()
        try:
            found = await self._texts.whole(ids, self._request.include, self._timeout_s("include", INCLUDING, 0.0))
        except BackendFailed as failure:
            if failure.kind == AnswerTooLarge.kind:
                raise AnswerTooLarge(f"include: {failure.detail}") from failure
            found = self._texts.at_hand(ids, self._request.include)
            self._degrade("include", "include", failure.reason, str(failure), len(found), len(ids))
        else:
            self._flag_missing("include", "include", len(found), len(ids))
        self.timings_ms["include"] = (time.perf_counter() - started) * 1000
        return found

    def _later(self, rerankings: int) -> float:
        return RERANKING * rerankings + (INCLUDING if self._request.include else 0.0)

    def _timeout_s(self, name: str, own: float, later: float, *, hits: int = 0, calls: int = 1) -> float:
        timeout_s = self._budget.share_s(own, later, hits, calls)
        if not timeout_s:
            raise BackendFailed(name, "deadline", "no time was left for it; send a larger X-Deadline-Ms.")
        return timeout_s

    # Retrieval: every retrieve of the pipeline at once, wherever in the fusions it stands.

    async def _retrieve_all(
        self, stages: Sequence[IdentifiedStage[SourceStage | LaterStage]], later: float
    ) -> dict[str, Ranking | BackendFailed]:
        legs = [(item.id, item.stage) for item in stages if isinstance(item.stage, Retrieve)]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = {
                    identity: group.create_task(self._retrieved(identity, stage, later)) for identity, stage in legs
                }
        except ExceptionGroup as failures:
            # The first one decides; the other legs were cancelled for it.
            raise failures.exceptions[0] from None
        return {identity: task.result() for identity, task in tasks.items()}

    async def _retrieved(self, identity: str, stage: Retrieve, later: float) -> Ranking | BackendFailed:
        started = time.perf_counter()
        backend = self._backends[stage.backend]
        request = RetrievalRequest(
            query=self._request.query,
            top=max(stage.top, self._request.top),
            preset=stage.preset,
            exact=stage.exact,
            filter=self._request.filter,
            exclude_ids=self._request.exclude_ids,
        )
        try:
            # What would come after it is worth nothing without a leg that must not fail.
            timeout_s = self._timeout_s(backend.name, RETRIEVAL, later if stage.on_failure == "skip" else 0.0)
            answer = await wire.search(backend, self._generation, request, timeout_s)
        except BackendFailed as failed:
            failure = not_held(backend.name, self._generation) if failed.unknown_generation else failed
            await self._let_pass(identity, stage, failure)
            self.timings_ms[identity] = (time.perf_counter() - started) * 1000
            return failure
        ranking = ranked(Scored(hit.id, hit.score) for hit in answer.hits)
        self._done(identity, ranking, started)
        return ranking

    async def _let_pass(self, identity: str, stage: Retrieve, failure: BackendFailed) -> None:
        """Returns when the walk may go on without this leg; raises what the caller must hear otherwise."""
        if failure.caller_erred:
            raise BadInput(f"stage '{identity}': {failure}") from failure
        if failure.unknown_generation and self._may_move:
            await self._generations.refresh(self._budget.share_s(1.0, 1.0))
            if self._generations.live(name_of(self._generation)) != self._generation:
                raise GenerationMovedError from failure
        if stage.on_failure == "fail":
            raise _no_retriever({identity: failure}) from failure
        self._texts.note_failure(failure)

    # Fusion: pure, inputs before the stage that fuses them.

    def _fused(
        self, stages: Sequence[IdentifiedStage[SourceStage | LaterStage]], outcomes: dict[str, Ranking | BackendFailed]
    ) -> Ranking:
        stack: list[Leg | None] = []
        for item in stages:
            match item.stage:
                case Retrieve() as stage:
                    outcome = outcomes[item.id]
                    if isinstance(outcome, BackendFailed):
                        self._degrade(item.id, "retrieve", outcome.reason, str(outcome), 0, 1)
                        stack.append(None)
                    else:
                        stack.append(Leg(outcome, floor=least_score(stage, self._backends.families)))
                case Fuse() as stage:
                    inputs = stack[-len(stage.inputs) :]
                    del stack[-len(stage.inputs) :]
                    stack.append(self._fuse(item.id, stage, inputs))
        if stack[0] is None:
            raise _no_retriever({name: one for name, one in outcomes.items() if isinstance(one, BackendFailed)})
        return stack[0].ranking

    def _fuse(self, identity: str, stage: Fuse, inputs: Sequence[Leg | None]) -> Leg | None:
        started = time.perf_counter()
        share = 1.0 if stage.method == "rrf" else 1.0 / len(inputs)
        weights = stage.weights or (share,) * len(inputs)
        legs = [leg._replace(weight=weight) for leg, weight in zip(inputs, weights, strict=True) if leg is not None]
        if not legs:
            return None
        ranking = reciprocal_rank(legs, stage.k) if stage.method == "rrf" else weighted(legs, stage.normalisation)
        self._done(identity, ranking, started)
        return Leg(ranking, floor=least_score(stage, self._backends.families))

    # Re-ranking: texts from the document store, scores from the re-ranker.

    async def _reranked(self, identity: str, stage: Rerank, ranking: Ranking, later: float) -> Ranking:
        head = [one.id for one in ranking[: stage.top]]
        if not head:
            return ranking
        try:
            documents, answer = await self._scored(stage, head, later)
        except BackendFailed as failure:
            if stage.on_failure == "fail":
                raise _stopped_at(identity, failure) from failure
            self._degrade(identity, "rerank", failure.reason, str(failure), 0, len(head))
            return ranking
        self._flag_missing(identity, "rerank", len(documents), len(head))
        scores = {name: score for name, score in zip(documents, answer.scores, strict=True) if score is not None}
        if len(scores) < len(documents):
            detail = f"{stage.backend}: no time was left for the others; send a larger X-Deadline-Ms."
            self._degrade(identity, "rerank", "deadline", detail, len(scores), len(head))
        if scores:
            self.models[identity] = answer.model
        # The z-scores are over those that were scored: the others have no place among them, and follow.
        return mixed(ranking, scores, answer.weight if stage.weight is None else stage.weight)

    async def _scored(self, stage: Rerank, ids: Sequence[str], later: float) -> tuple[list[str], ScoreAnswer]:
        """Those candidates that have a text, and the re-ranker's answer on them: not on all, where that may be."""
        backend = self._backends[stage.backend]
        timeout_s = self._timeout_s(backend.name, RERANKING, later, hits=self._request.top, calls=2)
        ends_at = time.monotonic() + timeout_s
        passages = await self._texts.passages(ids, timeout_s / 2)
        if not passages:
            what = "it has none of the candidates; send the documents again."
            raise BackendFailed("document store", "no_document_store", what, status=404)
        request = ScoreRequest(
            query=self._request.query,
            passages=fitting(tuple(passages.values())),
            partial=stage.on_failure == "skip",
        )
        left_s = ends_at - time.monotonic()
        if left_s < LEAST_CALL_S:
            raise BackendFailed(backend.name, "deadline", "the texts took its time; send a larger X-Deadline-Ms.")
        answer = await wire.score(backend, request, left_s)
        if len(answer.scores) != len(passages) or (None in answer.scores and not request.partial):
            what = (
                f"{len(answer.scores)} scores for {len(passages)} passages, {answer.scores.count(None)} of them none."
            )
            raise BackendFailed(backend.name, "failed", what)
        return list(passages), answer

    # The record.

    def _done(self, identity: str, ranking: Ranking, started: float) -> None:
        self.outputs[identity] = ranking
        self.timings_ms[identity] = (time.perf_counter() - started) * 1000

    def _flag_missing(self, identity: str, kind: StageKind, done: int, of: int) -> None:
        if done < of:
            detail = "document store: it lacks the others; ingest them again."
            self._degrade(identity, kind, "no_document_store", detail, done, of)

    def _degrade(self, identity: str, kind: StageKind, reason: Reason, detail: str, done: int, of: int) -> None:
        self.degraded.append((kind, Degradation(stage=identity, reason=reason, detail=detail, done=done, of=of)))


def _no_retriever(failures: dict[str, BackendFailed]) -> ProblemError:
    """Why nothing can be ranked. Offers to wait only for backends that waiting brings back."""
    what = "; ".join(f"stage '{identity}': {failure}" for identity, failure in failures.items())
    if all(failure.reason == "deadline" for failure in failures.values()):
        return DeadlineExceeded(what)
    passing = sorted({failure.backend for failure in failures.values() if not failure.lasting})
    if not passing:
        problems = {identity: as_problem(failure) for identity, failure in failures.items()}
        told = "; ".join(f"stage '{identity}': {problem.detail}" for identity, problem in problems.items())
        return type(next(iter(problems.values())))(f"No retriever is left. {told}")
    return Unavailable(f"No retriever is left. {what} Try again when {' or '.join(passing)} is back.", retry_after_s=1)


def _stopped_at(identity: str, failure: BackendFailed) -> ProblemError:
    if failure.lasting:
        problem = as_problem(failure)
        return type(problem)(f"stage '{identity}': {problem.detail}")
    return Unavailable(f"stage '{identity}': {failure}", retry_after_s=1)
