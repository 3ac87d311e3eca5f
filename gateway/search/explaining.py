"""Explains the hits of an answer: their places in the stages, and what matched in those whose backend explains."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gateway.backends import wire
from gateway.backends.failures import BackendFailed
from gateway.backends.replica import collected_parts
from gateway.search.plan import WalkPlan
from gateway.search.texts import MOST_BYTES
from gateway.search.walked import EXPLAINING, INCLUDING, WalkContext, Walked, reads_documents
from services.contracts.documents import Document
from services.contracts.explanation import ExplainRequest, Match
from services.contracts.query import StagePlace

# Most of the time to explain that reading the texts may take.
TEXTS_SHARE = 0.5
STAGE = "explain"


@dataclass(frozen=True, slots=True)
class _Explained:
    """What one stage's backend explained, by document id, or why it did not."""

    matches: Mapping[str, tuple[Match, ...]]
    documents: int
    failure: BackendFailed | None = None


def explaining_share(plan: WalkPlan, context: WalkContext) -> float:
    """Returns the share of the time that explaining takes: 0 where nothing is to be explained."""
    return EXPLAINING if plan.explaining and context.request.explain is True else 0.0


def places_of(walked: Walked) -> dict[str, dict[str, StagePlace]]:
    """Returns the places of each hit by stage id, with the matches of those that were explained."""
    places: dict[str, dict[str, StagePlace]] = {hit.id: {} for hit in walked.ranking}
    # A candidate's places are those among candidates, whatever the deeper searches return for it.
    below = {hit.id for hit in walked.beneath.ranking}
    for outputs, shown in ((walked.outputs, places.keys() - below), (walked.beneath.outputs, places.keys() & below)):
        for stage, output in outputs.items():
            matches = walked.matches.get(stage, {})
            for rank, hit in enumerate(output, start=1):
                if hit.id in shown:
                    places[hit.id][stage] = StagePlace(rank=rank, score=hit.score, matches=matches.get(hit.id))
    return places


async def explain(context: WalkContext, plan: WalkPlan, walked: Walked) -> Walked:
    """Adds the matches of the hits, from every stage whose backend explains. A failure is a degradation."""
    if not explaining_share(plan, context) or not walked.ranking:
        return walked
    started = time.perf_counter()
    ids = [hit.id for hit in walked.ranking]
    with collected_parts(STAGE) as parts:
        try:
            timeout_s = context.timeout_s(
                STAGE, EXPLAINING, INCLUDING if reads_documents(context.request) else 0.0, calls=2
            )
            ends_at = time.monotonic() + timeout_s
            # Kept, so that `include` does not read these texts again.
            walked = replace(walked, texts=await walked.texts.with_passages(ids, TEXTS_SHARE * timeout_s))
        except BackendFailed as failure:
            walked = walked.degrade(STAGE, STAGE, failure.reason, str(failure), 0, len(ids))
        else:
            documents = _affordable(walked, ids)
            places = places_of(walked)
            stages = {
                stage: (backend, [identity for identity in ids if stage in places[identity]])
                for stage, backend in plan.explaining.items()
            }
            given = await asyncio.gather(
                *(_explained(context, backend, held, documents, ends_at) for backend, held in stages.values())
            )
            walked = replace(walked, matches={stage: reply.matches for stage, reply in zip(stages, given, strict=True)})
            for stage, reply in zip(stages, given, strict=True):
                walked = _degraded(walked, stage, plan.explaining[stage], reply)
    return walked.timed(STAGE, started, parts)


def _affordable(walked: Walked, ids: Sequence[str]) -> dict[str, Document]:
    """Returns the documents whose whole texts fit into one request, the first hits first."""
    documents: dict[str, Document] = {}
    left = MOST_BYTES
    for document in walked.texts.already_read(ids, ("title", "text")).values():
        left -= len(document.passage.encode())
        if left < 0:
            break
        documents[document.id] = Document(id=document.id, title=document.title, text=document.text)
    return documents


async def _explained(
    context: WalkContext, backend: str, ids: Sequence[str], documents: Mapping[str, Document], ends_at: float
) -> _Explained:
    sent = tuple(documents[identity] for identity in ids if identity in documents)
    if not sent:
        return _Explained({}, len(ids))
    request = ExplainRequest(query=context.request.query, documents=sent)
    left_s = ends_at - time.monotonic()
    try:
        answer = await wire.explain(context.backends[backend], context.generation, request, left_s)
    except BackendFailed as failure:
        return _Explained({}, len(ids), failure)
    return _Explained({explanation.id: explanation.matches for explanation in answer.explanations}, len(ids))


def _degraded(walked: Walked, stage: str, backend: str, given: _Explained) -> Walked:
    if given.failure is not None:
        detail = f"stage '{stage}': {given.failure}"
        return walked.degrade(STAGE, STAGE, given.failure.reason, detail, 0, given.documents)
    if len(given.matches) < given.documents:
        detail = f"stage '{stage}': {backend}: the others have changed meanwhile, or their texts are too long together."
        return walked.degrade(STAGE, STAGE, "failed", detail, len(given.matches), given.documents)
    return walked
