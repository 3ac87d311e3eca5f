"""Runs the stages of one planned pipeline for one query, in order. Does not know kinds of stages: the plan does."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from gateway.backends.failures import BackendFailed
from gateway.backends.replica import collected_parts
from gateway.search.admission import search_cost
from gateway.search.counting import arranged, sourced_and_counted
from gateway.search.explaining import explain, explaining_share
from gateway.search.fitting import expect_to_fit
from gateway.search.plan import WalkPlan
from gateway.search.sources import no_retriever_left
from gateway.search.texts import WalkTexts
from gateway.search.walked import ARRANGING, INCLUDING, RETRIEVAL, Sourced, WalkContext, Walked, reads_documents
from services.chassis.admission.limits import WAIT, Held
from services.chassis.errors import AnswerTooLarge, Overloaded
from services.chassis.requests.spans import annotate
from services.contracts.base import DEEPEST
from services.contracts.generations import name_of
from services.contracts.highlights import HighlightRequest, Highlights
from services.contracts.query import SearchPage, SearchRequest
from services.contracts.scored import Ranking
from services.ranking.fusion import continued

# A search met overload if it waited in a service for more than this share of the time it had. So most wait here, where
# all are bounded together: services refuse only what reaches them before the limit has adapted.
QUEUED_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class _Shares:
    """Shares of the time that is left for what follows a source: each later stage, sorting and counting, and answers.

    `confined`: the request is of the candidates alone.
    """

    stages: list[float]
    answering: float
    arranging: float
    confined: bool

    @property
    def later(self) -> float:
        return sum(self.stages) + self.arranging


async def walk(context: WalkContext, plan: WalkPlan) -> Walked:
    """Returns the final ranking, cut to what the request wants, with outputs, timings and degradations of every stage,
    explained, with its documents.

    Stages after the source see its candidates alone, so the request's `top` changes nothing in their order: where more
    hits are asked for, those of a deeper retrieval follow beneath, but not where the request confines it.

    A failure that the pipeline allows is a degradation; any other is raised as a problem. Raises GenerationMovedError,
    UnfitPipeline, and Overloaded if the search is not admitted.
    """
    shares = _shares(context, plan)
    async with _admitted(context, (plan,), shares.later) as (held, within_s):
        walked = await _from_source(context, plan, shares, held, within_s)
    walked = await _through_stages(context, plan, shares, walked)
    whole = continued(walked.ranking, walked.beneath.ranking)
    walked = page_of(walked, whole, len(walked.ranking), context.request)
    return await include(context, plan, await explain(context, plan, walked))


async def walk_both(context: WalkContext, plans: Sequence[WalkPlan]) -> list[Walked | BaseException]:
    """Walks plans concurrently, admitted as one search. Returns the whole, bare ranking of each, or what it raised.

    Raises Overloaded if the search is not admitted.
    """
    shares = [_shares(context, plan) for plan in plans]
    async with _admitted(context, plans, max(each.later for each in shares)) as (held, within_s):
        sources = (_from_source(context, *each, held, within_s) for each in zip(plans, shares, strict=True))
        sourced = await asyncio.gather(*sources, return_exceptions=True)
    return await asyncio.gather(
        *(_through_stages(context, *each) for each in zip(plans, shares, sourced, strict=True)),
        return_exceptions=True,
    )


def _shares(context: WalkContext, plan: WalkPlan) -> _Shares:
    answering = explaining_share(plan, context) + (INCLUDING if reads_documents(context.request) else 0.0)
    confined = plan.source.retrieves[0].confined(context.request)
    arranging = answering + (ARRANGING if confined and (context.request.sort or context.request.facets) else 0.0)
    return _Shares([stage.share for stage in plan.later], answering, arranging, confined)


@asynccontextmanager
async def _admitted(context: WalkContext, plans: Iterable[WalkPlan], later: float) -> AsyncIterator[tuple[Held, float]]:
    """Holds the slot in which the sources of these plans run, and yields it with the seconds that they may take."""
    hits = [sum(retrieve.depths(context.request)) for plan in plans for retrieve in plan.source.retrieves]
    within_s = context.budget.share_s(RETRIEVAL, later)
    async with context.admission.slot(search_cost(hits, context.request), within_s, context.client) as held:
        held.overloaded = False  # a slow backend is not overloaded: one that is answers so
        yield held, within_s


async def _from_source(context: WalkContext, plan: WalkPlan, shares: _Shares, held: Held, within_s: float) -> Walked:
    history = context.generations.history(name_of(context.generation))
    expect_to_fit(context.backends, history, context.generation, plan)
    try:
        if context.request.counts and not shares.confined:
            sourced, counted = await sourced_and_counted(context, plan, shares.later)
        else:
            sourced, counted = await plan.source.run(context, shares.later), None
    except Overloaded:
        held.overloaded = True
        raise
    refused = any(failure.reason == "overloaded" for failure in sourced.failures.values())
    queued_ms = max((parts.get(WAIT, 0.0) for parts in sourced.parts_ms.values()), default=0.0)
    held.overloaded = held.overloaded or refused or queued_ms / 1000 > QUEUED_SHARE * within_s
    held.tells = held.overloaded or not sourced.failures
    walked = _after_source(context, plan, sourced)
    return walked if counted is None else counted.added_to(walked)


async def _through_stages(
    context: WalkContext, plan: WalkPlan, shares: _Shares, walked: Walked | BaseException
) -> Walked:
    """Returns what the later stages make of a source's walk. Raises what the source has raised."""
    if isinstance(walked, BaseException):
        raise walked
    for number, stage in enumerate(plan.later, start=1):
        started = time.perf_counter()
        with collected_parts(stage.id) as parts:
            walked = await stage.run(context, walked, sum(shares.stages[number:]) + shares.arranging)
            annotate({"candidates": len(walked.ranking)})
        walked = replace(walked, outputs={**walked.outputs, stage.id: walked.ranking}).timed(stage.id, started, parts)
    return await arranged(context, walked, shares.answering) if shares.confined else walked


def page_of(walked: Walked, whole: Ranking, candidates: int, request: SearchRequest) -> Walked:
    """Returns the walk with the part of its whole ranking that the request wants."""
    if request.offset is None:
        return replace(walked, ranking=whole[: request.top])
    end = min(request.offset + request.top, DEEPEST)
    page = SearchPage(offset=request.offset, candidates=candidates, more=len(whole[:DEEPEST]) > end)
    return replace(walked, ranking=whole[request.offset : end], page=page)


async def include(context: WalkContext, plan: WalkPlan, walked: Walked) -> Walked:
    """Adds documents and highlights of the ranking. Missing ones, or a store that is late, are a degradation."""
    ids, request = [candidate.id for candidate in walked.ranking], context.request
    if not ids or not reads_documents(request):
        return walked
    started, parts = time.perf_counter(), request.include
    highlights: Mapping[str, Highlights] = {}
    highlight = None
    if request.highlight is not None:
        history = context.generations.history(name_of(walked.generation))
        language = history.language(walked.generation, None if plan.lexical is None else plan.lexical.preset)
        highlight = HighlightRequest(query=request.query, fragments=request.highlight, language=language)
    try:
        with collected_parts("include") as parts_ms:
            timeout_s = context.timeout_s("include", INCLUDING, 0.0)
            documents, highlights = await walked.texts.read_uncut(ids, parts, highlight, timeout_s)
    except BackendFailed as failure:
        if failure.kind == AnswerTooLarge.kind:
            raise AnswerTooLarge(f"include: {failure.detail}") from failure
        documents = walked.texts.already_read(ids, parts)
        flagged = walked.degrade("include", "include", failure.reason, str(failure), len(documents), len(ids))
    else:
        flagged = walked.flag_missing("include", "include", len(documents), len(ids))
    return replace(flagged, documents=documents, highlights=highlights).timed("include", started, parts_ms)


def _after_source(context: WalkContext, plan: WalkPlan, given: Sourced) -> Walked:
    if given.found is None:
        raise no_retriever_left(given.failures)
    texts = WalkTexts(context.backends.document_store, context.generation).with_failures(given.failures.values())
    if given.documents:
        parts = frozenset(plan.source.retrieves[0].beside(context.request))
        texts = replace(texts, read={document.id: document for document in given.documents}, parts=parts)
    source = given.found
    timings = given.timings_ms, given.parts_ms
    walked = Walked(context.generation, source.ranking, source.outputs, *timings, texts, source.beneath())
    for identity, failure in given.failures.items():
        walked = walked.degrade(identity, "retrieve", failure.reason, str(failure), 0, 1)
    return walked
