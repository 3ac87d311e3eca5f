"""Resolves an experiment's arms (its pipelines, with the chosen lexical preset), and builds their requests."""

from dataclasses import dataclass

from pydantic import ValidationError

from evaluator.client.client import GatewayClient
from evaluator.datasets.reader import Dataset
from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import Experiment
from evaluator.steps.ingest import live_states
from services.contracts.collections import CollectionView
from services.contracts.pipelines import Fuse, Pipeline, Retrieve, SourceStage
from services.contracts.query import SearchRequest
from services.contracts.validation_messages import validation_message


@dataclass(frozen=True, slots=True)
class Arm:
    """One pipeline of an experiment. Requests carry `asked`: a name that the gateway knows, or an inline pipeline."""

    name: str
    asked: str | Pipeline
    pipeline: Pipeline
    preset: str | None  # set by the experiment; None: the pipeline's own


def search_request(arm: Arm, dataset: Dataset, query: str, top: int) -> SearchRequest:
    """Returns the request that asks an arm for a query of the dataset; one that is a document excludes itself.

    Raises EvaluationError for a query that is too long for a pipeline of so many retrieves.
    """
    try:
        return SearchRequest(
            query=dataset.queries[query],
            pipeline=arm.asked,
            top=top,
            exclude_ids=(query,) if query in dataset.self_retrieved else (),
        )
    except ValidationError as error:
        message = validation_message(error.errors()[0])
        raise EvaluationError(f"pipeline {arm.name}: query {query!r} cannot be sent: {message}") from error


async def resolve_arms(client: GatewayClient, experiment: Experiment, view: CollectionView) -> tuple[Arm, ...]:
    """Returns every arm; the gateway must know it and the collection serve it. Raises EvaluationError if not."""
    lexical = frozenset(backend.backend for backend in view.backends if backend.family == "lexical")
    if experiment.preset is not None:
        _expect_preset(view, lexical, experiment.preset)
    arms = []
    for named in experiment.pipelines:
        pipeline = (await client.pipeline(named)).pipeline if isinstance(named, str) else named
        changed = pipeline if experiment.preset is None else with_preset(pipeline, experiment.preset, lexical)
        if changed == pipeline:
            arms.append(Arm(pipeline.name, named, pipeline, None))
        else:
            arms.append(Arm(pipeline.name, changed, changed, experiment.preset))
    return tuple(arms)


def with_preset(pipeline: Pipeline, preset: str, lexical: frozenset[str]) -> Pipeline:
    """Returns the pipeline with `preset` in every retrieve from a lexical backend."""

    def changed(stage: SourceStage) -> SourceStage:
        match stage:
            case Fuse():
                return stage.model_copy(update={"inputs": tuple(changed(source) for source in stage.inputs)})
            case Retrieve():
                return stage.model_copy(update={"preset": preset}) if stage.backend in lexical else stage

    stages = tuple(changed(stage) if isinstance(stage, SourceStage) else stage for stage in pipeline.stages)
    return Pipeline(name=pipeline.name, description=pipeline.description, stages=stages)


def _expect_preset(view: CollectionView, lexical: frozenset[str], preset: str) -> None:
    for backend, state in live_states(view).items():
        if backend not in lexical:
            continue
        declared = [item if isinstance(item, str) else item.name for item in state.declaration.presets]
        if preset in declared:
            return
        raise EvaluationError(
            f"{state.generation} serves the presets {', '.join(declared)}, not {preset!r}: "
            "name one of them, or declare it under `presets` of the experiment and ingest again"
        )
    raise EvaluationError(f"{view.collection}: no reachable lexical backend holds it, so no preset can be chosen")
