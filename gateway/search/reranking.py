"""Runs the re-ranking stages of a walk: gets scores by texts of the document store, or by vectors of a backend."""

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

from gateway.backends import wire
from gateway.backends.budget import LEAST_CALL_S
from gateway.backends.failures import BackendFailed, as_problem, not_held
from gateway.families import FAMILIES
from gateway.search.texts import fit_to_reranker
from gateway.search.walked import RERANKING, Reranked, WalkContext, Walked
from services.chassis.admission.limits import Held
from services.chassis.errors import Overloaded, ProblemError, Unavailable
from services.contracts.pipelines import Rerank
from services.contracts.query import Reason
from services.contracts.rerank import LEAST_SCORED, ScoreAnswer, ScoreRequest, StoredScoreRequest
from services.ranking.fusion import Mixture
from services.ranking.stages import reranked

# Most of a re-ranking's time that reading its texts may take.
TEXTS_SHARE = 0.5


async def rerank(identity: str, stage: Rerank, context: WalkContext, before: Walked, later: float) -> Walked:
    """Re-ranks the first candidates. A failure is a degradation if the stage may be skipped; else it is raised.

    A backend that retrieves has their vectors: texts are read only of those that it lacks. Any other scores as many
    texts as it can in a part of the time left, so that the answer does not wait for all of the deadline.
    """
    head = [candidate.id for candidate in before.ranking[: stage.top]]
    if not head:
        return before
    backend = context.backends[stage.backend]
    walked = before
    crowded = False
    may_skip = stage.on_failure == "skip"
    most = context.admission.rerank_share if may_skip and not FAMILIES[backend.family].retrieves else 1.0
    try:
        timeout_s = context.timeout_s(backend.name, RERANKING, later, hits=context.request.top, calls=2, most=most)
        ends_at = time.monotonic() + timeout_s
        slot = context.admission.reranking(backend.name, timeout_s, context.client) if may_skip else nullcontext(Held())
        async with slot as held:
            held.overloaded = False  # a slow reranker is not overloaded: one that is answers so
            try:
                scores: dict[str, float] = {}
                scorable, unscored = 0, head
                if FAMILIES[backend.family].retrieves:
                    answer, scores = await _scores(stage, context, head, {}, (), ends_at)
                    scorable, unscored = len(scores), [identity for identity in head if identity not in scores]
                if unscored:
                    # Kept even if the scores fail, so that `include` does not read these texts again.
                    walked = replace(walked, texts=await walked.texts.with_passages(unscored, TEXTS_SHARE * timeout_s))
                    passages = walked.texts.passages(unscored)
                    scorable += len(passages)
                    if not scorable:
                        what = "it has none of the candidates; send the documents again."
                        raise BackendFailed("document store", "no_document_store", what, status=404)
                    if passages:
                        titles = () if stage.passages is None else walked.texts.title_lengths(passages)
                        answer, further = await _scores(stage, context, tuple(passages), passages, titles, ends_at)
                        scores |= further
            except BackendFailed as failure:
                held.overloaded = failure.status == Overloaded.status
                raise
            if len(scores) < min(LEAST_SCORED, scorable):
                scores = {}  # z-scores of so few would make the ranking worse
                # Other work took the time: an idle re-ranker scores enough in what texts leave of it.
                crowded = answer.needs_ms is not None and answer.needs_ms / 1000 <= (1.0 - TEXTS_SHARE) * timeout_s
                # A deadline that is too short by itself shows nothing of the load.
                held.tells = held.overloaded = crowded
    except Overloaded:
        detail = f"{backend.name}: it does as many re-rankings as it has the time for; try again later."
        return walked.degrade(identity, stage.kind, "overloaded", detail, 0, len(head))
    except BackendFailed as failure:
        if stage.on_failure == "fail":
            raise _rerank_problem(identity, failure) from failure
        return walked.degrade(identity, stage.kind, failure.reason, str(failure), 0, len(head))
    walked = walked.flag_missing(identity, stage.kind, scorable, len(head))
    if len(scores) < scorable:
        walked = walked.degrade(identity, stage.kind, *_why_unscored(stage.backend, crowded), len(scores), len(head))
    # z-scores are computed over the scored candidates; the others follow them.
    ranking = reranked(stage, Mixture(before.ranking, scores), answer.weight)
    models = {**walked.models, identity: answer.model} if scores else walked.models
    given = Reranked(scores, answer.weight)
    return replace(walked, ranking=ranking, models=models, reranked={**walked.reranked, identity: given})


async def _scores(
    stage: Rerank,
    context: WalkContext,
    ids: Sequence[str],
    passages: Mapping[str, str],
    titles: tuple[int, ...],
    ends_at: float,
) -> tuple[ScoreAnswer, dict[str, float]]:
    """Returns the backend's answer, and the scores in it by id.

    Scores may lack where no passages are given, because no vector is stored, or where the stage may be skipped.
    """
    backend = context.backends[stage.backend]
    query, partial = context.request.query, stage.on_failure == "skip"
    texts = fit_to_reranker(tuple(passages.values()))
    request: ScoreRequest | StoredScoreRequest
    if FAMILIES[backend.family].retrieves:
        by_id = dict(zip(passages, texts, strict=True))
        request = StoredScoreRequest(
            query=query, generation=context.generation, ids=tuple(ids), passages=by_id, partial=partial
        )
    else:
        request = ScoreRequest(query=query, passages=texts, partial=partial, split=stage.passages, title_lengths=titles)
    left_s = ends_at - time.monotonic()
    if left_s < LEAST_CALL_S:
        raise BackendFailed(backend.name, "deadline", "the texts took its time; send a larger X-Deadline-Ms.")
    try:
        answer = await wire.score(backend, request, left_s, context.client)
    except BackendFailed as failure:
        if failure.unknown_generation:
            raise not_held(backend.name, context.generation) from failure
        raise
    if len(answer.scores) != len(ids) or (None in answer.scores and passages and not partial):
        what = f"{len(answer.scores)} scores for {len(ids)} passages, {answer.scores.count(None)} of them none."
        raise BackendFailed(backend.name, "failed", what)
    return answer, {identity: score for identity, score in zip(ids, answer.scores, strict=True) if score is not None}


def _why_unscored(backend: str, crowded: bool) -> tuple[Reason, str]:
    if crowded:
        return "overloaded", f"{backend}: other work has its time; try again later."
    return "deadline", f"{backend}: no time was left for the others; send a larger X-Deadline-Ms."


def _rerank_problem(identity: str, failure: BackendFailed) -> ProblemError:
    if failure.permanent:
        problem = as_problem(failure)
        return type(problem)(f"stage '{identity}': {problem.detail}")
    return Unavailable(f"stage '{identity}': {failure}", retry_after_s=1)
