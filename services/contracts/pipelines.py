"""Owns pipelines as data: a closed set of stages, discriminated by `kind`. Does not run them."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, Self, TypeVar, assert_never, get_args

from pydantic import Field, PrivateAttr, model_validator

from services.contracts.base import Depth, Name, Number, Weight, Wire
from services.contracts.lists import Items
from services.contracts.online import ExperimentPipeline
from services.contracts.passages import Passages
from services.contracts.retrieval import Beam

LONGEST_ID = 64
StageId = Annotated[str, Field(pattern=rf"^[a-z0-9][a-z0-9_.-]{{0,{LONGEST_ID - 1}}}$")]
OnFailure = Literal["fail", "skip"]
# Above what a gateway runs (16 retrieves, by its own check): eight inputs of eight inputs, and the stages after them.
MOST_STAGES = 100
DEEPEST_FUSE = 4
MOST_INPUTS = 8
# Timings of an answer that belong to no stage. Stage ids must not collide with them.
GATEWAY_WAIT = "gateway.wait"
OTHER_TIMINGS = ("explain", "include", "matches", "sort", "total", GATEWAY_WAIT)


class Retrieve(Wire):
    """The first `top` of one backend, as candidates. A request's `top` changes nothing about them.

    `preset` names a lexical preset. `exact` asks a vector store for a full scan; `beam` is the width of its approximate
    search (DEFAULT_BEAM if absent), at least `top`.
    """

    kind: Literal["retrieve"]
    id: StageId | None = None
    backend: Name
    preset: Name | None = None
    exact: bool = False
    beam: Beam | None = None
    top: Depth = 100
    on_failure: OnFailure = "fail"

    @model_validator(mode="after")
    def _beam_is_used(self) -> Self:
        if self.exact and self.beam is not None:
            raise ValueError("beam: an exact search has none; leave out beam or exact")
        return self


class Fuse(Wire):
    """Fuses several rankings: by reciprocal rank (k, ranks from 1), or by a weighted sum of normalised scores."""

    kind: Literal["fuse"]
    id: StageId | None = None
    method: Literal["rrf", "weighted"] = "rrf"
    k: Annotated[int, Field(strict=True, ge=1, le=10_000)] = 60
    normalisation: Literal["min-max", "z-score", "theoretical-min"] = "min-max"
    # One for each input; equal shares when absent.
    weights: Annotated[tuple[Annotated[Number, Field(ge=0.0)], ...], Items(0, MOST_INPUTS)] | None = None
    inputs: Annotated[tuple["Source", ...], Items(2, MOST_INPUTS)]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.weights is not None:
            if len(self.weights) != len(self.inputs):
                raise ValueError(f"weights: {len(self.weights)} given for {len(self.inputs)} inputs")
            if not sum(self.weights):
                raise ValueError("weights: at least one must be above 0")
        # Defaults of the other method pass: a fuse serialised in full must parse again.
        if self.method == "rrf" and self.normalisation != "min-max":
            raise ValueError("normalisation belongs to method 'weighted'")
        if self.method == "weighted" and self.k != 60:
            raise ValueError("k belongs to method 'rrf'")
        return self


class Rerank(Wire):
    """Sorts the first `top` candidates by `weight * z(reranker) + (1 - weight) * z(first stage)`; the rest follow them.

    Without `weight` the model's recommended one is used. With `passages`, a document longer than one is cut into them,
    and its best passage counts (MaxP; services/inference/passages.py).
    """

    kind: Literal["rerank"]
    id: StageId | None = None
    backend: Name = "reranker"
    top: Depth = 100
    weight: Weight | None = None
    passages: Annotated[Passages | None, Field(exclude_if=lambda passages: passages is None)] = None
    on_failure: OnFailure = "fail"


class Cut(Wire):
    """Keeps only the first `top` candidates."""

    kind: Literal["cut"]
    id: StageId | None = None
    top: Depth


SourceStage = Retrieve | Fuse
LaterStage = Rerank | Cut
Source = Annotated[SourceStage, Field(discriminator="kind")]
Stage = Annotated[SourceStage | LaterStage, Field(discriminator="kind")]
STAGE_MODELS: tuple[type[Wire], ...] = (*get_args(SourceStage), *get_args(LaterStage))

AnyStage = TypeVar("AnyStage", covariant=True)


@dataclass(frozen=True, slots=True)
class IdentifiedStage(Generic[AnyStage]):
    """A stage with the id by which timings and degradations refer to it; `inputs` are those of a fuse."""

    id: str
    stage: AnyStage
    inputs: tuple["IdentifiedStage[SourceStage]", ...] = ()

    def inputs_first(self) -> Iterator["IdentifiedStage[SourceStage | AnyStage]"]:
        """Yields the inputs at every depth, each before its fuse, then this stage."""
        for source in self.inputs:
            yield from source.inputs_first()
        yield self


@dataclass(frozen=True, slots=True)
class IdentifiedStages:
    """The stages of a pipeline with their ids."""

    source: IdentifiedStage[SourceStage]
    later: tuple[IdentifiedStage[LaterStage], ...]

    def __iter__(self) -> Iterator[IdentifiedStage[SourceStage | LaterStage]]:
        """Yields every stage; inputs come before their fuse."""
        yield from self.source.inputs_first()
        yield from self.later


class Pipeline(Wire):
    """A source (retrieve or fuse), then any number of rerank and cut stages. Stage ids are unique.

    Build a changed pipeline anew: `model_copy` validates nothing and keeps the identified stages of the old one.
    """

    name: Name
    description: str = ""
    stages: Annotated[tuple[Stage, ...], Items(1, 16)]
    _identified: IdentifiedStages = PrivateAttr()

    @model_validator(mode="before")
    @classmethod
    def _few(cls, value: Any) -> Any:
        # Runs before validation builds them: eight inputs each, five deep, are 32,768 stages.
        if isinstance(value, dict):
            _check_size(value.get("stages"))
        return value

    @model_validator(mode="after")
    def _shape(self) -> Self:
        source = self.stages[0]
        if not isinstance(source, SourceStage):
            raise ValueError("stages: the first must be of kind retrieve or fuse")
        later: list[IdentifiedStage[LaterStage]] = []
        for place, stage in enumerate(self.stages[1:], start=2):
            if isinstance(stage, SourceStage):
                raise ValueError("stages: retrieve and fuse stand first; to combine them, make them inputs of a fuse")
            later.append(IdentifiedStage(_id(stage, str(place)), stage))
        self._identified = IdentifiedStages(_identified(source, "1"), tuple(later))
        ids = [stage.id for stage in self._identified]
        if len(set(ids)) < len(ids):
            twice = sorted(name for name, count in Counter(ids).items() if count > 1)
            raise ValueError(f"stages: ids must be unique, these are not: {', '.join(twice)}")
        if taken := [name for name in OTHER_TIMINGS if name in ids]:
            raise ValueError(f"stages: the id '{taken[0]}' is that of another timing; give the stage another one")
        return self

    @property
    def identified(self) -> IdentifiedStages:
        """The stages with their ids: given, or their kind and place (`rerank-2`, `retrieve-1.1`)."""
        return self._identified

    @property
    def backends(self) -> tuple[str, ...]:
        """The backends of all stages, each once. A collection has to live on those that store collections."""
        stages = (identified.stage for identified in self._identified)
        return tuple(dict.fromkeys(stage.backend for stage in stages if isinstance(stage, Retrieve | Rerank)))

    @property
    def fingerprint(self) -> str:
        """12 hexadecimal digits that change whenever what the pipeline does changes (name and description do not)."""
        content = self.model_dump_json(exclude={"name", "description"})
        return hashlib.sha256(content.encode()).hexdigest()[:12]


def _identified(stage: SourceStage, place: str) -> IdentifiedStage[SourceStage]:
    match stage:
        case Retrieve():
            return IdentifiedStage(_id(stage, place), stage)
        case Fuse(inputs=inputs):
            below = tuple(_identified(source, f"{place}.{number}") for number, source in enumerate(inputs, start=1))
            return IdentifiedStage(_id(stage, place), stage, below)
        case _:
            assert_never(stage)


def _id(stage: SourceStage | LaterStage, place: str) -> str:
    return stage.id or f"{stage.kind}-{place}"


def _check_size(stages: object) -> None:
    """Raises ValueError for too many stages or too deeply nested fuses. Reads raw JSON."""
    count, depth, level = 0, 0, stages
    while isinstance(level, list | tuple) and level:
        count += len(level)
        if count > MOST_STAGES:
            raise ValueError(f"stages: there are more than {MOST_STAGES}, inputs of fuses among them")
        if depth > DEEPEST_FUSE:
            raise ValueError(f"stages: fuse stages may be nested {DEEPEST_FUSE} deep at most")
        inputs = [stage.get("inputs") for stage in level if isinstance(stage, dict)]
        level = [source for several in inputs if isinstance(several, list | tuple) for source in several]
        depth += 1


class PipelineView(Wire):
    """A pipeline that the gateway serves."""

    name: Name
    fingerprint: str
    pipeline: Pipeline


class PipelineList(Wire):
    """The pipelines and experiments that a search can name."""

    pipelines: tuple[PipelineView, ...]
    experiments: tuple[ExperimentPipeline, ...] = ()


class PipelineChanges(Wire):
    """The names of pipelines that a reload of the files added, changed, removed or left unchanged."""

    added: tuple[Name, ...]
    changed: tuple[Name, ...]
    removed: tuple[Name, ...]
    unchanged: tuple[Name, ...]
