"""Owns what the page shows of an answer: hits, degradations, times and stages. Pure: renders nothing."""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gateway.search_page.form import PageSearch
from services.chassis.errors import ProblemError
from services.contracts.pipelines import Fuse, Pipeline, PipelineView
from services.contracts.query import Degradation, SearchAnswer, SearchHit, StagePlace

SIDES = ("left", "right")
EXCERPT = 280
# A word that is cut is shown cut if it is longer: scripts without spaces have no better place.
LONGEST_WORD = 40


@dataclass(frozen=True, slots=True)
class ShownProblem:
    """A problem as the page shows it: HTTP status, title, and what to do."""

    status: int
    title: str
    detail: str

    @classmethod
    def of(cls, error: ProblemError) -> "ShownProblem":
        """Returns what is shown of an error."""
        return cls(error.status, error.title, error.detail)


@dataclass(frozen=True, slots=True)
class Movement:
    """The difference between two lists for one hit: a sign for the eye, and words that mean the same."""

    kind: Literal["up", "down", "same", "only"]
    sign: str
    words: str


@dataclass(frozen=True, slots=True)
class ShownHit:
    """A hit. `places` are its rank and score at each stage; `moved` compares it with the other list.

    `excerpt`: the best fragment of its text, or the start, in parts, each with whether it is a word of the query.
    """

    id: str
    rank: int
    score: str
    title: str
    excerpt: tuple[tuple[str, bool], ...]
    places: tuple[tuple[str, StagePlace], ...]
    moved: Movement | None


@dataclass(frozen=True, slots=True)
class ShownTime:
    """Milliseconds of a stage, or of the `part` of one that its service reports."""

    name: str
    ms: float
    part: bool


@dataclass(frozen=True, slots=True)
class ShownStage:
    """A stage of a pipeline: its id, its kind, and what it was given."""

    id: str
    kind: str
    given: str


@dataclass(frozen=True, slots=True)
class ShownSide:
    """One of the two lists, or the only one. Has an answer or a problem. `label` names its place."""

    side: str
    label: str
    pipeline: str
    answer: SearchAnswer | None
    problem: ShownProblem | None
    hits: tuple[ShownHit, ...] = ()
    times: tuple[ShownTime, ...] = ()
    stages: tuple[ShownStage, ...] = ()
    description: str = ""

    @property
    def degraded(self) -> tuple[Degradation, ...]:
        """What its stages left out."""
        return self.answer.degraded if self.answer is not None else ()

    @property
    def total_ms(self) -> float:
        """Milliseconds of the whole search."""
        return self.answer.timings_ms["total"] if self.answer is not None else 0.0


Outcome = SearchAnswer | ProblemError


def shown_sides(
    search: PageSearch, outcomes: Sequence[Outcome], views: Mapping[str, PipelineView]
) -> tuple[ShownSide, ...]:
    """Returns the lists of one or two pipelines, each compared with the other. `views` are the pipelines by name."""
    pipelines = search.pipelines
    labels = ("Left", "Right") if len(pipelines) > 1 else ("Hits",)
    ranks = [_ranks(outcome) for outcome in outcomes]
    shown = []
    for place, (name, outcome) in enumerate(zip(pipelines, outcomes, strict=True)):
        side, label = SIDES[place], labels[place]
        if isinstance(outcome, ProblemError):
            shown.append(ShownSide(side, label, name, None, ShownProblem.of(outcome)))
            continue
        other = 1 - place
        compared = ranks[other] if len(pipelines) > 1 else None
        view = views.get(name)  # None if it was removed meanwhile
        shown.append(
            ShownSide(
                side,
                label,
                name,
                outcome,
                None,
                tuple(_shown_hit(hit, search, compared, SIDES[other]) for hit in outcome.hits),
                shown_times(outcome.timings_ms),
                () if view is None else shown_stages(view.pipeline),
                "" if view is None else view.pipeline.description,
            )
        )
    return tuple(shown)


def _ranks(outcome: Outcome) -> dict[str, int] | None:
    return None if isinstance(outcome, ProblemError) else {hit.id: hit.rank for hit in outcome.hits}


def _shown_hit(hit: SearchHit, search: PageSearch, others: Mapping[str, int] | None, other: str) -> ShownHit:
    return ShownHit(
        id=hit.id,
        rank=hit.rank,
        score=f"{hit.score:.4f}",
        title=(hit.title or "").strip() or hit.id,
        excerpt=shown_excerpt(hit),
        places=tuple((hit.stages or {}).items()),
        moved=None if others is None else movement(hit.id, hit.rank, others, other, counted=not search.blind),
    )


def excerpt(text: str) -> str:
    """Returns the start of a text in one line, at most EXCERPT characters and an ellipsis, cut between words."""
    line = " ".join(text[: 4 * EXCERPT].split())
    if len(line) <= EXCERPT:
        return line if len(text) <= 4 * EXCERPT else f"{line} …"
    # Not between a letter and its mark.
    end = next((at for at in range(EXCERPT, 0, -1) if unicodedata.category(line[at])[0] != "M"), EXCERPT)
    start, _, word = line[:end].rpartition(" ")
    return f"{start if start and len(word) <= LONGEST_WORD else line[:end]} …"


def shown_excerpt(hit: SearchHit) -> tuple[tuple[str, bool], ...]:
    """Returns the best fragment of a text in parts, each with whether it is marked; the start where there is none."""
    text, fragments = hit.text or "", () if hit.highlights is None else hit.highlights.text
    if not fragments:
        return ((excerpt(text), False),) if text.strip() else ()
    fragment, end = fragments[0], 0
    parts = [("… " if fragment.start else "", False)]
    for first, last in fragment.matches:
        parts += [(fragment.text[end:first], False), (fragment.text[first:last], True)]
        end = last
    rest = fragment.text[end:] + (" …" if fragment.start + len(fragment.text) < len(text.rstrip()) else "")
    return tuple(part for part in (*parts, (rest, False)) if part[0])


def shown_times(timings_ms: Mapping[str, float]) -> tuple[ShownTime, ...]:
    """Returns the times of an answer in its order, the parts of a stage marked as such."""
    return tuple(
        ShownTime(name, ms, part=any(name.startswith(f"{stage}.") for stage in timings_ms))
        for name, ms in timings_ms.items()
    )


def shown_stages(pipeline: Pipeline) -> tuple[ShownStage, ...]:
    """Returns the stages of a pipeline, inputs before their fuse, with what its file gives them."""
    stages = []
    for step in pipeline.identified:
        given = step.stage.model_dump(exclude={"kind", "id", "inputs"}, exclude_unset=True)
        if isinstance(step.stage, Fuse):
            given = {"of": [below.id for below in step.inputs], **given}
        settings = ", ".join(f"{name} {_said(value)}" for name, value in given.items())
        stages.append(ShownStage(step.id, step.stage.kind, settings))
    return tuple(stages)


def _said(value: Any) -> str:
    return " and ".join(str(item) for item in value) if isinstance(value, list | tuple) else str(value)


def movement(document: str, rank: int, others: Mapping[str, int], other: str, *, counted: bool = True) -> Movement:
    """Compares a hit's rank with those of the list `other` (`left`, `right`), by document id. Ranks begin at 1.

    `counted`: whether to name how many hits are there, by which a reader may know the pipeline.
    """
    other_rank = others.get(document)
    if other_rank is None and not counted:
        return Movement("only", "only here", f"not on the {other}")
    if other_rank is None:
        shown = f"the {len(others)} hits" if len(others) != 1 else "the one hit"
        return Movement("only", "only here", f"not among {shown} on the {other}")
    places = abs(other_rank - rank)
    if not places:
        return Movement("same", "=", f"same place as on the {other}")
    way, sign = ("higher", "▲") if rank < other_rank else ("lower", "▼")
    amount = "1 place" if places == 1 else f"{places} places"
    return Movement("up" if rank < other_rank else "down", f"{sign}{places}", f"{amount} {way} than on the {other}")
