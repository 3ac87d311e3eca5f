"""Owns the values of a walk: what every stage is given, what a source gives, what is known after a stage.

All are frozen: a stage returns a new value and changes none, so two walks of one request share only the backends.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from gateway.backends.budget import Budget
from gateway.backends.failures import BackendFailed
from gateway.backends.wire import Backends
from gateway.collections.generations import Generations
from gateway.search.admission import Admission
from gateway.search.texts import WalkTexts
from services.contracts.documents import Document
from services.contracts.explanation import Match
from services.contracts.highlights import Highlights
from services.contracts.matches import Matches
from services.contracts.query import Degradation, Reason, SearchPage, SearchRequest
from services.contracts.scored import Ranking

# Shares of the time that is left: all retrieves run at once; each re-ranking, sorting and counting the candidates,
# explanations and the final texts come after them.
RETRIEVAL, RERANKING, ARRANGING, EXPLAINING, INCLUDING = 1.0, 1.0, 0.25, 0.25, 0.25


@dataclass(frozen=True, slots=True)
class WalkContext:
    """One query over one generation, of a `client`. `may_move`: a replaced generation raises GenerationMovedError."""

    backends: Backends
    generations: Generations
    admission: Admission
    client: str
    request: SearchRequest
    generation: str
    budget: Budget
    may_move: bool

    def timeout_s(
        self, backend: str, own: float, later: float, *, hits: int = 0, calls: int = 1, most: float = 1.0
    ) -> float:
        """Returns the seconds for a stage, as Budget.share_s. Raises BackendFailed where they are too few."""
        timeout_s = self.budget.share_s(own, later, hits, calls, most)
        if not timeout_s:
            raise BackendFailed(backend, "deadline", "no time was left for it; send a larger X-Deadline-Ms.")
        return timeout_s


@dataclass(frozen=True, slots=True)
class Found:
    """A ranking, and by stage id those of the source's stages that led to it.

    `deeper` is what the same stages give DEEPEST deep. It is None where not more hits are asked for than a retrieve's
    `top`, or where there are no more.
    """

    ranking: Ranking = ()
    outputs: Mapping[str, Ranking] = field(default_factory=dict)
    deeper: "Found | None" = None

    def beneath(self) -> "Found":
        """Returns what the deeper ranking has beyond this one."""
        if self.deeper is None:
            return Found()
        held = {hit.id for hit in self.ranking}
        return Found(tuple(hit for hit in self.deeper.ranking if hit.id not in held), self.deeper.outputs)


@dataclass(frozen=True, slots=True)
class Sourced:
    """What a source gave. `found` is None where all of its retrieves failed. Mappings are by stage id.

    `documents` are those that came with the hits.
    """

    found: Found | None
    timings_ms: Mapping[str, float]
    failures: Mapping[str, BackendFailed]  # of retrieves that may be skipped
    parts_ms: Mapping[str, Mapping[str, float]] = field(
        default_factory=dict
    )  # what the services reported of their time
    documents: tuple[Document, ...] = ()


@dataclass(frozen=True, slots=True)
class StageDegradation:
    """A degradation and the kind of its stage, by which metrics count it."""

    kind: str
    degradation: Degradation


@dataclass(frozen=True, slots=True)
class Reranked:
    """What a re-ranker's model gave: scores by document id, and the weight that it recommends for them."""

    scores: Mapping[str, float]
    weight: float


@dataclass(frozen=True, slots=True)
class Walked:
    """What is known after a walk, or after some of its stages. Mappings are by stage id, `documents` by document id.

    `beneath` is what follows the ranking where more hits are asked for than it has; later stages only cut it.
    """

    generation: str
    ranking: Ranking
    outputs: Mapping[str, Ranking]
    timings_ms: Mapping[str, float]
    parts_ms: Mapping[str, Mapping[str, float]]
    texts: WalkTexts
    beneath: Found
    degraded: tuple[StageDegradation, ...] = ()
    models: Mapping[str, str] = field(default_factory=dict)
    reranked: Mapping[str, "Reranked"] = field(default_factory=dict)
    documents: Mapping[str, Document] = field(default_factory=dict)
    matches: Mapping[str, Mapping[str, tuple[Match, ...]]] = field(default_factory=dict)  # by stage, then document id
    highlights: Mapping[str, Highlights] = field(default_factory=dict)
    page: SearchPage | None = None
    counts: Matches | None = None

    def timed(self, stage: str, started: float, parts: Mapping[str, float]) -> Self:
        """Returns this with the time of a stage, which `started` (of `time.perf_counter`), and its services' parts."""
        timings_ms = {**self.timings_ms, stage: elapsed_ms(started)}
        return replace(self, timings_ms=timings_ms, parts_ms={**self.parts_ms, stage: parts})

    def degrade(self, stage: str, kind: str, reason: Reason, detail: str, done: int, of: int) -> Self:
        """Returns this with one more degradation."""
        degradation = Degradation(stage=stage, reason=reason, detail=detail, done=done, of=of)
        return replace(self, degraded=(*self.degraded, StageDegradation(kind, degradation)))

    def flag_missing(self, stage: str, kind: str, done: int, of: int) -> Self:
        """Returns this, degraded where the document store lacks documents."""
        if done >= of:
            return self
        detail = "document store: it lacks the others; ingest them again."
        return self.degrade(stage, kind, "no_document_store", detail, done, of)


def reads_documents(request: SearchRequest) -> bool:
    """Returns whether an answer needs documents of the store, for `include` or highlights."""
    return bool(request.include) or request.highlight is not None


def elapsed_ms(started: float) -> float:
    """Returns the milliseconds since `started` (of `time.perf_counter`)."""
    return (time.perf_counter() - started) * 1000
