"""Decides which stage lost a relevant document. Pure: rankings in, one verdict a document out."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, assert_never, get_args

from evaluator.attribution.candidates import ArmCandidates, QueryCandidates
from evaluator.attribution.collect import leg_name
from services.contracts.pipelines import Cut, Fuse, Pipeline, Rerank, Retrieve
from services.contracts.scored import Ranking

Fate = Literal[
    "found",
    "query lost",
    "leg failed",
    "in no leg",
    "lost by the approximate index",
    "below a leg's depth",
    "demoted by fusion",
    "cut",
    "below the re-ranker's depth",
    "re-ranker skipped",
    "demoted by the re-ranker",
]
FATES: tuple[Fate, ...] = get_args(Fate)
ANSWER = "answer"  # the end of every pipeline, where the first hits are kept
Ranks = Mapping[str, int]  # rank by document


@dataclass(frozen=True, slots=True)
class DocumentVerdict:
    """The fate of a document, and the stage (its id, or ANSWER) where it happened.

    `ranks`: by stage that had it. `passed_by`: of a demotion, the documents among the first hits after the stage that
    stood below it before.
    """

    fate: Fate
    stage: str
    ranks: Ranks
    passed_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Step:
    """One place on a candidate's way through a pipeline. `fate`: that of a document which it moves out of the top.

    `unscored`: a re-ranker gave it no score, so it could not come into the top any more.
    """

    id: str
    fate: Fate
    rank: int | None
    unscored: bool = False


class QueryFates:
    """The fates of documents in one pipeline's answer to one query. `top`: hits of an answer that count."""

    def __init__(self, pipeline: Pipeline, given: QueryCandidates, arm: str, top: int) -> None:
        self._pipeline = pipeline
        self._own: ArmCandidates = given.arms[arm]
        self._top = top
        self._hits = frozenset(self._own.hits[:top])
        self._ranks = {stage: _ranks(output.ranking) for stage, output in self._own.stages.items()}
        self._deep = {name: _ranks(leg.ranking) for name, leg in given.legs.items()}
        self._exact = {name: _ranks(scored.ranking) for name, scored in given.exact.items()}

    def of(self, document: str) -> DocumentVerdict:
        """Returns the fate of a relevant document.

        The stage that moved it out of the top is the cause, unless a later one moved it back. A document that never
        stood there was lost where it could no longer come there: by the legs, at a `cut`, by a re-ranker that did not
        score it. Else the re-ranker has set it lower, or the answer ends above it (`cut`).
        """
        if self._own.error is not None:
            return DocumentVerdict("query lost", ANSWER, {})
        ranks = {stage: places[document] for stage, places in self._ranks.items() if document in places}
        if document in self._hits:
            return DocumentVerdict("found", ANSWER, ranks)
        legs = {leg.id: leg.stage for leg in self._pipeline.identified if isinstance(leg.stage, Retrieve)}
        seen = [leg for leg in legs if leg in ranks]
        steps: list[_Step] = []
        if seen:
            best = min(seen, key=lambda leg: ranks[leg])
            steps = [_Step(best, "cut", ranks[best]), *self._steps(document, ranks)]
            if moved := self._moved_out(steps, ranks):
                return moved
        for identity, leg in legs.items():
            if identity not in self._ranks and self._would_give(leg, document):
                return DocumentVerdict("leg failed", identity, ranks)
        return _never_inside(steps, ranks) if seen else self._outside(document, legs, ranks)

    def _would_give(self, leg: Retrieve, document: str) -> bool:
        """Returns whether a leg has a document within its depth when it is asked alone; True if that failed too."""
        ranks = self._deep.get(leg_name(leg))
        return ranks is None or ranks.get(document, leg.top + 1) <= leg.top

    def _outside(self, document: str, legs: Mapping[str, Retrieve], ranks: Ranks) -> DocumentVerdict:
        deep = []
        for identity, leg in legs.items():
            place = self._exact.get(leg_name(leg), {}).get(document)
            if place is not None and place <= leg.top:
                return DocumentVerdict("lost by the approximate index", identity, ranks)
            if place is not None or document in self._deep.get(leg_name(leg), {}):
                deep.append(identity)
        return DocumentVerdict("below a leg's depth" if deep else "in no leg", (deep or list(legs))[0], ranks)

    def _steps(self, document: str, ranks: Ranks) -> list[_Step]:
        """Returns the steps after the legs."""
        source, steps = self._pipeline.identified.source, []
        if isinstance(source.stage, Fuse):
            steps.append(_Step(source.id, "demoted by fusion", ranks.get(source.id)))
        before = ranks.get(source.id)
        for later in self._pipeline.identified.later:
            match later.stage:
                case Cut():
                    steps.append(_Step(later.id, "cut", ranks.get(later.id)))
                case Rerank() as stage:
                    unscored = document not in (self._own.stages[later.id].model_scores or {})
                    steps.append(_Step(later.id, _by_reranker(stage, before, unscored), ranks.get(later.id), unscored))
                case _:
                    assert_never(later.stage)
            before = ranks.get(later.id)
        return steps

    def _moved_out(self, steps: list[_Step], ranks: Ranks) -> DocumentVerdict | None:
        """Returns the last move out of the top that no later stage undid; None where the document was never there."""
        moved: tuple[_Step, _Step] | None = None
        for before, after in itertools.pairwise(steps):
            if self._inside(after):
                moved = None
            elif self._inside(before):
                moved = before, after
        if moved is None:
            return None
        before, after = moved
        above = frozenset(name for name, rank in self._ranks[before.id].items() if rank < (before.rank or 0))
        ahead = sorted(self._ranks[after.id].items(), key=lambda item: item[1])[: self._top]
        risers = tuple(name for name, _ in ahead if name not in above)
        return DocumentVerdict(after.fate, after.id, ranks, risers)

    def _inside(self, step: _Step) -> bool:
        return step.rank is not None and step.rank <= self._top


def _by_reranker(stage: Rerank, before: int | None, unscored: bool) -> Fate:
    """Returns the fate of a document that a re-ranker moves out of the top, or leaves outside. `before`: its rank."""
    if not unscored:
        return "demoted by the re-ranker"
    # A re-ranker scores all candidates within its depth, unless it failed, had no time left or was given no text.
    return "re-ranker skipped" if before is not None and before <= stage.top else "below the re-ranker's depth"


def _never_inside(steps: list[_Step], ranks: Ranks) -> DocumentVerdict:
    for before, after in itertools.pairwise(steps):
        if before.rank is not None and after.rank is None:
            return DocumentVerdict("cut", after.id, ranks)
        if after.unscored:
            return DocumentVerdict(after.fate, after.id, ranks)
    for before, after in itertools.pairwise(steps):
        lowered = before.rank is not None and after.rank is not None and after.rank > before.rank
        if lowered and after.fate == "demoted by the re-ranker":
            return DocumentVerdict(after.fate, after.id, ranks)
    return DocumentVerdict("cut", ANSWER, ranks)


def _ranks(ranking: Ranking) -> dict[str, int]:
    return {hit.id: rank for rank, hit in enumerate(ranking, start=1)}
