"""Reads and checks what `make demo` is to measure, as the evaluator will, so that nothing starts in vain."""

import re
from collections.abc import Mapping, Sequence

from deploy.local.problem import StackProblem
from deploy.local.replaced_environment import replaced_environment
from evaluator.commands.options import ExperimentOverrides, overridden_plan
from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import Experiment
from evaluator.experiments.suite import experiments_of
from evaluator.steps.prepared_run import load_dataset
from gateway.search.catalog import Catalog
from gateway.search.plan import PipelineError
from gateway.settings import GatewaySettings
from services.chassis.errors import BadInput, UnknownPipeline
from services.chassis.settings.configuration import BadSettings, read_settings

_NUMBERS = frozenset({"queries", "depth", "top"})


def demo_experiments(environment: Mapping[str, str]) -> tuple[Experiment, ...]:
    """Returns the experiments of a demo, one a dataset, by its variables. Raises StackProblem, naming the variable.

    The files of the datasets are there, and the names of metrics are known.
    """
    given: dict[str, object] = {}
    for option in ExperimentOverrides.__annotations__:
        value = environment.get(option.upper(), "")
        given[option] = int(value) if option in _NUMBERS and value.isdecimal() else value
    try:
        return experiments_of(overridden_plan("demo", **given))
    except EvaluationError as error:
        named = re.sub(r"^--(\w+) ", lambda option: f"{option[1].upper()}=", str(error))
        raise StackProblem(f"{named}; nothing was started.") from error


def expect_measurable(experiments: Sequence[Experiment], environment: Mapping[str, str]) -> None:
    """Reads every line of the datasets, and asks for every pipeline as the gateway of the demo will be asked.

    `environment`: that of this gateway. Raises StackProblem with the first fault of a dataset, and for all pipelines
    that it will not serve.
    """
    try:
        for experiment in experiments:
            load_dataset(experiment)
    except EvaluationError as error:
        raise StackProblem(f"{error}; nothing was started.") from error
    with replaced_environment(environment):
        try:
            settings = read_settings(GatewaySettings)
            catalog = Catalog(settings.pipelines, settings.backends, inline=settings.inline_pipelines)
        except (BadSettings, PipelineError):
            return  # the check of all settings, which comes next, names the fault
    faults = []
    for asked in experiments[0].pipelines:
        try:
            catalog.resolve(asked)
        except (BadInput, UnknownPipeline) as problem:
            faults.append(problem.detail if isinstance(asked, str) else f"{asked.name}: {problem.detail}")
    if faults:
        raise StackProblem("\n  ".join(["PIPELINES: nothing was started, because:", *faults]))
