"""Owns the named pipelines, read from files and reloaded on request, and plans the inline ones of searches."""

import asyncio
import difflib
import logging
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, get_args

from pydantic import ValidationError

from gateway.families import STARTABLE
from gateway.search.experiments import PlannedExperiment
from gateway.search.plan import PipelineError, WalkPlan, absent_backends, plan_browsing, plan_pipeline
from gateway.settings import DEFAULT_BACKENDS, BackendAddress
from services.chassis.errors import BadInput, UnknownPipeline
from services.chassis.settings.strict_yaml import InvalidYaml, parse_yaml
from services.contracts.online import ExperimentPipeline
from services.contracts.pipelines import STAGE_MODELS, Pipeline, PipelineChanges, PipelineList, PipelineView
from services.contracts.validation_messages import validation_message
from services.files.regular_file import read_regular
from services.files.text_encoding import NotUtf8, text_of

STAGE_KINDS = tuple(kind for model in STAGE_MODELS for kind in get_args(model.model_fields["kind"].annotation))

logger = logging.getLogger(__name__)

MOST_BYTES = 16_000_000


class PipelineFiles(NamedTuple):
    """The pipelines and experiments of a directory that can be served, by name, and what the others lack."""

    plans: Mapping[str, WalkPlan]
    experiments: Mapping[str, PlannedExperiment]
    absent: Mapping[str, Sequence[str]]  # names of backends that are not configured

    @property
    def served(self) -> Mapping[str, WalkPlan | PlannedExperiment]:
        """All that a search can name."""
        return {**self.plans, **self.experiments}


class Catalog:
    """Keeps the plans of the named pipelines, each checked against the configured backends."""

    def __init__(
        self, directory: Path, backends: Mapping[str, BackendAddress], *, inline: bool, journal: bool = False
    ) -> None:
        """Reads all `*.yaml` of a directory. Raises PipelineError naming the file and what is wrong with it."""
        self._directory = directory
        self._backends = dict(backends)
        self._inline = inline
        self._journal = journal
        self._files = self._read()
        self._browsing = plan_browsing(backends)

    async def reload(self) -> PipelineChanges:
        """Reads the directory again, in a thread. Raises BadInput for the first faulty file, and then changes nothing.

        Running searches keep the pipeline that they began with.
        """
        try:
            files = await asyncio.to_thread(self._read)
        except PipelineError as error:
            raise BadInput(f"{error}. The pipelines stay as they were; put the file right and ask again.") from error
        before, self._files = self._files, files
        old, new = before.served, self._files.served
        both = sorted(old.keys() & new.keys())
        changes = PipelineChanges(
            added=tuple(sorted(new.keys() - old.keys())),
            changed=tuple(name for name in both if new[name].pipeline != old[name].pipeline),
            removed=tuple(sorted(old.keys() - new.keys())),
            unchanged=tuple(name for name in both if new[name].pipeline == old[name].pipeline),
        )
        logger.info("pipelines read again", extra=changes.model_dump())
        return changes

    def resolve(self, pipeline: str | Pipeline) -> WalkPlan | PlannedExperiment:
        """Returns the plan of the named or given pipeline, or its experiment. Raises UnknownPipeline or BadInput."""
        if isinstance(pipeline, str):
            return self._named(pipeline)
        if not self._inline:
            raise BadInput(
                "Inline pipelines are switched off here (GATEWAY_INLINE_PIPELINES); name one of: "
                f"{', '.join(sorted(self._files.plans))}."
            )
        try:
            return plan_pipeline(pipeline, self._backends)
        except PipelineError as error:
            raise BadInput(f"pipeline: {error}") from error

    def browsing(self) -> WalkPlan:
        """Returns the plan of searches without a query. Raises BadInput where no backend can list documents."""
        if self._browsing is None:
            raise BadInput("query: without one, a lexical backend lists documents, and there is none; send a query.")
        return self._browsing

    def view(self, name: str) -> PipelineView:
        """Returns one pipeline by name. Raises UnknownPipeline."""
        plan = self._named(name)
        if isinstance(plan, PlannedExperiment):
            arms = ", ".join(plan.plans)
            raise UnknownPipeline(f"'{name}' is an experiment, which a search can name; its pipelines are {arms}.")
        return PipelineView(name=name, fingerprint=plan.fingerprint, pipeline=plan.pipeline)

    def views(self) -> PipelineList:
        """Returns all pipelines that can be served, by name."""
        experiments = tuple(self._files.experiments[name].pipeline for name in sorted(self._files.experiments))
        pipelines = tuple(self.view(name) for name in sorted(self._files.plans))
        return PipelineList(pipelines=pipelines, experiments=experiments)

    def _named(self, name: str) -> WalkPlan | PlannedExperiment:
        served, absent = self._files.served, self._files.absent
        if name in absent:
            raise UnknownPipeline(f"Pipeline '{name}' {_needs(absent[name])}.")
        if name not in served:
            meant = "".join(f" Did you mean '{name}'?" for name in difflib.get_close_matches(name, sorted(served), 1))
            raise UnknownPipeline(f"There is no pipeline '{name}'; known: {', '.join(sorted(served))}.{meant}")
        return served[name]

    def _read(self) -> PipelineFiles:
        read = read_pipelines(self._directory, self._backends)
        if read.experiments and not self._journal:
            name = next(iter(read.experiments))
            raise PipelineError(
                f"{self._directory / name}.yaml: an experiment needs a journal of what it showed: set GATEWAY_JOURNAL "
                "to a folder, or take the file away"
            )
        for name, absent in read.absent.items():
            logger.info("pipeline '%s' is not served: it %s", name, _needs(absent))
        return read


def _needs(absent: Sequence[str]) -> str:
    several = "s" if len(absent) > 1 else ""
    names = " and ".join(f"'{name}'" for name in absent)
    ways = "name it in GATEWAY_BACKENDS"
    if not set(absent) & DEFAULT_BACKENDS.keys():
        ways = f"start it with `make down && make up SYSTEMS={','.join(absent)}`, or {ways}"
    return f"needs the backend{several} {names}, which this gateway does not have; {ways}"


def read_pipelines(directory: Path, backends: Mapping[str, BackendAddress]) -> PipelineFiles:
    """Plans all `*.yaml` of a directory. Raises PipelineError naming the file and what is wrong with it.

    A pipeline over a family's backend that is not configured is checked as if it were, and not served.
    """
    plans: dict[str, WalkPlan] = {}
    declared: dict[str, ExperimentPipeline] = {}
    unserved: dict[str, Sequence[str]] = {}
    for path in sorted(directory.glob("*.yaml")):
        try:
            pipeline = parse_pipeline(text_of(read_regular(path, MOST_BYTES)))
            if isinstance(pipeline, Pipeline):
                absent = absent_backends(pipeline, backends)
                assumed = {name: BackendAddress(family=STARTABLE[name], url="http://absent") for name in absent}
                planned = plan_pipeline(pipeline, {**backends, **assumed})
            if pipeline.name != path.stem:
                raise PipelineError(
                    f"name '{pipeline.name}' differs from the file's: write `name: {path.stem}`, or rename the file"
                )
        except OSError as error:
            raise PipelineError(f"{path}: it cannot be read: {error.strerror}") from error
        except NotUtf8 as error:
            raise PipelineError(f"{path}: it is {error}") from error
        except PipelineError as error:
            raise PipelineError(f"{path}: {error}") from error
        if isinstance(pipeline, ExperimentPipeline):
            declared[pipeline.name] = pipeline
        elif absent:
            unserved[pipeline.name] = absent
        else:
            plans[pipeline.name] = planned
    if not plans:
        what = "no pipeline (*.yaml) there; see GATEWAY_PIPELINES"
        if unserved:
            what = "; ".join(f"pipeline '{name}' {_needs(absent)}" for name, absent in unserved.items())
        raise PipelineError(f"{directory}: {what}")
    experiments: dict[str, PlannedExperiment] = {}
    for name, pipeline in declared.items():
        arms = pipeline.experiment.arms
        for arm in arms:
            if arm not in plans and arm not in unserved:
                known = ", ".join(plans)
                raise PipelineError(
                    f"{directory / name}.yaml: experiment.arms: '{arm}' is no pipeline here; name {known}"
                )
        if lacking := tuple(dict.fromkeys(backend for arm in arms for backend in unserved.get(arm, ()))):
            unserved[name] = lacking
        else:
            experiments[name] = PlannedExperiment(pipeline, {arm: plans[arm] for arm in arms})
    return PipelineFiles(plans, experiments, unserved)


@lru_cache(maxsize=256)  # a catalog reads all files again when one has changed
def parse_pipeline(text: str) -> Pipeline | ExperimentPipeline:
    """Parses a pipeline from YAML. Raises PipelineError with the location of every fault and the kinds of stages."""
    try:
        content = parse_yaml(text)
    except InvalidYaml as error:
        raise PipelineError(f"not valid YAML: {error}") from error
    model = ExperimentPipeline if isinstance(content, dict) and "experiment" in content else Pipeline
    try:
        return model.model_validate(content)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(str(part) for part in fault['loc']) or 'pipeline'}: {validation_message(fault, model)}"
            for fault in error.errors(include_url=False, include_input=False)
        )
        kinds = f" (kinds of stages: {', '.join(STAGE_KINDS)})" if model is Pipeline else ""
        raise PipelineError(f"{faults}{kinds}") from error
