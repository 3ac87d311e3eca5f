"""Runs the re-ranking stages of a walk: reads texts from the document store, gets scores from the re-ranker."""

import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace

from gateway.backends import wire
from gateway.backends.budget import LEAST_CALL_S
from gateway.backends.failures import BackendFailed, as_problem
from gateway.search.texts import fit_to_reranker
from gateway.search.walked import RERANKING, Reranked, WalkContext, Walked
from services.chassis.admission.limits import Held
from services.chassis.errors import Overloaded, ProblemError, Unavailable
from services.contracts.pipelines import Rerank
from services.contracts.query import Reason
from services.contracts.rerank import LEAST_SCORED, ScoreAnswer, ScoreRequest
from services.ranking.fusion import Mixture
from services.ranking.stages import reranked

# Most of a re-ranking's time that reading its texts may take.
TEXTS_SHARE = 0.5


async def rerank(identity: str, stage: Rerank, context: WalkContext, before: Walked, later: float) -> Walked:
    """Re-ranks the first candidates. A failure is a degradation if the stage may be skipped; else it is raised."""
    head = [one.id for one in before.ranking[: stage.top]]
    if not head:
        return before
    backend = context.backends[stage.backend]
    walked = before
    crowded = False
    try:
        timeout_s = context.timeout_s(backend.name, RERANKING, later, hits=context.request.top, calls=2)
        ends_at = time.monotonic() + timeout_s
        may_skip = stage.on_failure == "skip"
        async with context.admission.reranking(backend.name, timeout_s) if may_skip else nullcontext(Held()) as held:
            held.overloaded = False  # a slow reranker is not overloaded: one that is answers so
            try:
                # Kept even if the scores fail, so that `include` does not read these texts again.
                walked = replace(walked, texts=await walked.texts.with_passages(head, TEXTS_SHARE * timeout_s))
                passages = walked.texts.passages(head)
                answer = await _scores(stage, context, passages, ends_at)
            except BackendFailed as failure:
                held.overloaded = failure.status == Overloaded.status
                raise
            scores = {name: score for name, score in zip(passages, answer.scores, strict=True) if score is not None}
            if len(scores) < min(LEAST_SCORED, len(passages)):
                scores = {}  # z-scores of so few would make the ranking worse
                crowded = _crowded(answer, timeout_s)
                # A deadline that is too short by itself shows nothing of the load.
                held.tells = held.overloaded = crowded
    except Overloaded:
        detail = f"{backend.name}: it does as many re-rankings as it has the time for; try again later."
        return walked.degrade(identity, stage.kind, "overloaded", detail, 0, len(head))
    except BackendFailed as failure:
        if stage.on_failure == "fail":
            raise _rerank_problem(identity, failure) from failure
        return walked.degrade(identity, stage.kind, failure.reason, str(failure), 0, len(head))
    walked = walked.flag_missing(identity, stage.kind, len(passages), len(head))
    if len(scores) < len(passages):
        walked = walked.degrade(identity, stage.kind, *_why_unscored(stage.backend, crowded), len(scores), len(head))
    # z-scores are computed over the scored candidates; the others follow them.
    ranking = reranked(stage, Mixture(before.ranking, scores), answer.weight)
    models = {**walked.models, identity: answer.model} if scores else walked.models
    given = Reranked(scores, answer.weight)
    return replace(walked, ranking=ranking, models=models, reranked={**walked.reranked, identity: given})


async def _scores(stage: Rerank, context: WalkContext, passages: Mapping[str, str], ends_at: float) -> ScoreAnswer:
    """Returns the re-ranker's answer on these passages. It may lack scores if the stage may be skipped."""
    backend = context.backends[stage.backend]
    if not passages:
        what = "it has none of the candidates; send the documents again."
        raise BackendFailed("document store", "no_document_store", what, status=404)
    request = ScoreRequest(
        query=context.request.query,
        passages=fit_to_reranker(tuple(passages.values())),
        partial=stage.on_failure == "skip",
    )
    left_s = ends_at - time.monotonic()
    if left_s < LEAST_CALL_S:
        raise BackendFailed(backend.name, "deadline", "the texts took its time; send a larger X-Deadline-Ms.")
    answer = await wire.score(backend, request, left_s)
    if len(answer.scores) != len(passages) or (None in answer.scores and not request.partial):
        what = f"{len(answer.scores)} scores for {len(passages)} passages, {answer.scores.count(None)} of them none."
        raise BackendFailed(backend.name, "failed", what)
    return answer


def _crowded(answer: ScoreAnswer, timeout_s: float) -> bool:
    """Returns whether other work took the time: an idle re-ranker scores enough in what texts leave of it."""
    return answer.needs_ms is not None and answer.needs_ms / 1000 <= (1.0 - TEXTS_SHARE) * timeout_s


def _why_unscored(backend: str, crowded: bool) -> tuple[Reason, str]:
    if crowded:
        return "overloaded", f"{backend}: other work has its time; try again later."
    return "deadline", f"{backend}: no time was left for the others; send a larger X-Deadline-Ms."


def _rerank_problem(identity: str, failure: BackendFailed) -> ProblemError:
    if failure.permanent:
        problem = as_problem(failure)
        return type(problem)(f"stage '{identity}': {problem.detail}")
    return Unavailable(f"stage '{identity}': {failure}", retry_after_s=1)
