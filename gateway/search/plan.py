"""Plans a pipeline: checks every stage against the backends, and binds it to the function that runs it.

Owns every decision that depends on the kind of a stage, made once, when a pipeline is read. Runs nothing.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from gateway.families import FAMILIES, STARTABLE, Family, family_names
from gateway.search.reranking import rerank
from gateway.search.sources import PlannedRetrieve, PlannedSource, fuse, retrieve
from gateway.search.walked import RERANKING, WalkContext, Walked
from gateway.settings import BackendAddress
from services.chassis.settings.configuration import ConfigurationError
from services.contracts.base import DEEPEST
from services.contracts.pipelines import Cut, Fuse, IdentifiedStage, LaterStage, Pipeline, Rerank, Retrieve, SourceStage
from services.contracts.retrieval import DEFAULT_BEAM
from services.ranking.stages import fused_least_score, needs_least_scores

# A pipeline is data from outside: its cost is bounded before any backend is called.
MOST_RETRIEVES = 16
MOST_RERANKS = 4
LARGEST_WEIGHT = 1_000.0

Addresses = Mapping[str, BackendAddress]


class PipelineError(ConfigurationError):
    """A pipeline does not fit the configured backends; the message states what to change."""


@dataclass(frozen=True, slots=True)
class PlannedStage:
    """A stage after the source, bound to the function that runs it.

    `run` is called with the walk so far and the sum of the later stages' shares. `share` is this stage's part of the
    remaining time, relative to those of the other stages.
    """

    id: str
    run: Callable[[WalkContext, Walked, float], Coroutine[Any, Any, Walked]]
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class WalkPlan:
    """A pipeline and its stages, bound to the functions that run them."""

    pipeline: Pipeline
    fingerprint: str
    source: PlannedSource
    later: tuple[PlannedStage, ...]
    least_scores: Mapping[str, float | None]  # that each source stage can give; None: no bound
    explaining: Mapping[str, str]  # backends that explain, by the ids of the stages that they serve
    lexical: Retrieve | None  # the first lexical retrieve, by whose preset words are highlighted


def plan_pipeline(pipeline: Pipeline, backends: Addresses) -> WalkPlan:
    """Returns the plan of a pipeline over these backends, given by name.

    Raises PipelineError if a stage names an unknown or unfit backend, or the pipeline has too many stages.
    """
    for kind, most in ((Retrieve, MOST_RETRIEVES), (Rerank, MOST_RERANKS)):
        count = sum(isinstance(stage.stage, kind) for stage in pipeline.identified)
        if count > most:
            raise PipelineError(f"{count} {kind.__name__.lower()} stages, at most {most} are allowed")
    later = tuple(_later(stage, backends) for stage in pipeline.identified.later)
    source = _source(pipeline.identified.source, backends, pipeline.identified.later)
    explaining = {
        step.id: step.stage.backend
        for step in pipeline.identified
        if isinstance(step.stage, Retrieve | Rerank) and FAMILIES[backends[step.stage.backend].family].explains
    }
    by_words = (leg.stage for leg in source.retrieves if FAMILIES[backends[leg.stage.backend].family].presets)
    least_scores = dict(source.least_scores())
    return WalkPlan(pipeline, pipeline.fingerprint, source, later, least_scores, explaining, next(by_words, None))


def plan_browsing(backends: Addresses) -> WalkPlan | None:
    """Returns the plan of searches without a query: one retrieve of the document store; None where there is none."""
    store = _document_store(backends)
    if store is None:
        return None
    # As deep as any search, so that the order is that of the store alone.
    stage = Retrieve(kind="retrieve", id="browse", backend=store, top=DEEPEST)
    return plan_pipeline(Pipeline(name="browse", stages=(stage,)), backends)


def absent_backends(pipeline: Pipeline, backends: Addresses) -> tuple[str, ...]:
    """Returns the backends of a pipeline that are not configured and that a stack can start, in order of its stages.

    Any other name is a typing error.
    """
    return tuple(name for name in pipeline.backends if name not in backends and name in STARTABLE)


def _document_store(backends: Addresses) -> str | None:
    return next((name for name, backend in backends.items() if FAMILIES[backend.family].document_store), None)


def _source(
    identified: IdentifiedStage[SourceStage],
    backends: Addresses,
    later: Sequence[IdentifiedStage[LaterStage]] | None = None,
) -> PlannedSource:
    """Plans a source. `later`: the stages that follow it; None where another one fuses it."""
    match identified.stage:
        case Retrieve() as stage:
            family = _checked_retrieve(identified.id, stage, backends)
            planned = PlannedRetrieve(
                stage,
                approximate=family.approximate and not stage.exact,
                alone=later is not None and not later,
                stores=stage.backend == _document_store(backends),
                reranker=_texts_reader(stage.top, later[0].stage, backends) if later else None,
                counts_all=family.presets and later is not None and not any(isinstance(it.stage, Cut) for it in later),
            )
            run = partial(retrieve, identified.id, planned)
            return PlannedSource(identified.id, run, family.least_score, (planned,))
        case Fuse() as stage:
            inputs = tuple(_source(stage_input, backends) for stage_input in identified.inputs)
            _check_fuse(identified.id, stage, inputs)
            least = fused_least_score(stage)
            retrieves = tuple(leg for source in inputs for leg in source.retrieves)
            return PlannedSource(identified.id, partial(fuse, identified.id, stage, inputs), least, retrieves, inputs)


def _later(identified: IdentifiedStage[LaterStage], backends: Addresses) -> PlannedStage:
    match identified.stage:
        case Rerank() as stage:
            _check_rerank(identified.id, stage, backends)
            return PlannedStage(identified.id, partial(rerank, identified.id, stage), RERANKING)
        case Cut() as stage:
            return PlannedStage(identified.id, partial(_cut, stage))


def _texts_reader(top: int, stage: LaterStage, backends: Addresses) -> str | None:
    """Returns the backend to which a stage sends the texts of so many candidates. One that retrieves has vectors."""
    if not isinstance(stage, Rerank) or stage.top < top or FAMILIES[backends[stage.backend].family].retrieves:
        return None
    return stage.backend


async def _cut(stage: Cut, _context: WalkContext, before: Walked, _later: float) -> Walked:
    kept = before.ranking[: stage.top]
    following = before.beneath.ranking[: stage.top - len(kept)]
    return replace(before, ranking=kept, beneath=replace(before.beneath, ranking=following))


def _checked_retrieve(identity: str, stage: Retrieve, backends: Addresses) -> Family:
    name = _checked_family(identity, stage.backend, lambda family: family.retrieves, backends)
    family = FAMILIES[name]
    if stage.preset is not None and not family.presets:
        presets = family_names(lambda family: family.presets)
        raise PipelineError(f"stage '{identity}': presets are {presets}; backend '{stage.backend}' is {name}")
    if stage.exact and not family.exact:
        raise PipelineError(f"stage '{identity}': exact is for vectors; backend '{stage.backend}' is {name}")
    _check_beam(identity, stage, name, family)
    return family


def _check_beam(identity: str, stage: Retrieve, name: str, family: Family) -> None:
    if not family.approximate:
        if stage.beam is not None:
            raise PipelineError(f"stage '{identity}': beam is for vectors; backend '{stage.backend}' is {name}")
        return
    beam = DEFAULT_BEAM if stage.beam is None else stage.beam
    if beam < stage.top and not stage.exact:
        given = f"a beam of {beam}" if stage.beam is not None else f"the default beam of {beam}"
        raise PipelineError(
            f"stage '{identity}': top {stage.top} needs a beam of at least {stage.top}, and it has {given}; "
            f"write `beam: {stage.top}` or more, or `top: {beam}` or less"
        )


def _check_fuse(identity: str, stage: Fuse, inputs: tuple[PlannedSource, ...]) -> None:
    if stage.weights and max(stage.weights) > LARGEST_WEIGHT:
        raise PipelineError(f"stage '{identity}': weights may be at most {LARGEST_WEIGHT:g}")
    if needs_least_scores(stage):
        for source, planned in zip(stage.inputs, inputs, strict=True):
            if planned.least_score is None:
                what = "z-scores have" if isinstance(source, Fuse) else f"backend '{source.backend}' has"
                raise PipelineError(f"{needing_bounds(identity)}; {what} none")


def needing_bounds(identity: str) -> str:
    """Returns the words that begin the refusal of a fuse whose inputs have no least score."""
    return f"stage '{identity}': theoretical-min needs inputs with a least score"


def _check_rerank(identity: str, stage: Rerank, backends: Addresses) -> None:
    family = FAMILIES[_checked_family(identity, stage.backend, lambda family: family.reranks, backends)]
    if family.retrieves and stage.passages is not None:
        raise PipelineError(
            f"stage '{identity}': passages are for texts, and backend '{stage.backend}' scores stored vectors; "
            "leave passages out, or name a re-ranker"
        )
    if not family.retrieves and not any(FAMILIES[backend.family].document_store for backend in backends.values()):
        stores = family_names(lambda family: family.document_store)
        raise PipelineError(f"stage '{identity}': re-ranking needs a {stores} backend, the document store")


def _checked_family(identity: str, name: str, fits: Callable[[Family], bool], backends: Addresses) -> str:
    """Returns the family of the backend of this name. Raises PipelineError if there is none, or its family does not
    fit."""
    fit = sorted(known for known, backend in backends.items() if fits(FAMILIES[backend.family]))
    if name not in fit:
        raise PipelineError(f"stage '{identity}': no backend '{name}' for this; there are: {', '.join(fit) or 'none'}")
    return backends[name].family
