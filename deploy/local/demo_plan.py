"""Decides what `make demo` measures, and checks it as the evaluator will, so that nothing starts in vain.

With SYSTEMS=paper it measures the systems of the BEIR paper, as far as this stack serves them.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from deploy.local.choices import Choices
from deploy.local.problem import StackProblem
from deploy.local.replaced_environment import replaced_environment
from evaluator.analyses.paper_systems import paper_pipelines
from evaluator.client.client import QUERY_DEADLINE_MS
from evaluator.commands.options import ExperimentOverrides, overridden_plan
from evaluator.datasets.catalogue import LocatedSet, load_catalogue
from evaluator.datasets.reader import corpus_file
from evaluator.datasets.text_files import sha256
from evaluator.errors import EvaluationError
from evaluator.expansion.expansion_file import declared_models
from evaluator.experiments.experiment import Experiment, bundled_directory
from evaluator.experiments.experiment import read_settings as read_experiment
from evaluator.experiments.suite import experiments_of
from evaluator.steps.prepared_run import load_dataset
from gateway.search.catalog import Catalog
from gateway.search.plan import PipelineError
from gateway.settings import GatewaySettings
from services.chassis.errors import BadInput, UnknownPipeline
from services.chassis.settings.configuration import BadSettings, read_settings
from services.contracts.pipelines import Pipeline, Retrieve
from services.sparse.settings import SparseSettings

_NUMBERS = frozenset({"queries", "depth", "top", "deadline_ms"})
METRICS = "nDCG@10,MRR@10,P@10,Recall@10,judged@10,Recall@100,R_cap@100"

Evaluator = Callable[..., int]
Say = Callable[[str], None]


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
        named = re.sub(r"^--([\w-]+) ", lambda option: f"{option[1].upper().replace('-', '_')}=", str(error))
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
    for pipeline in experiments[0].pipelines:
        try:
            catalog.resolve(pipeline)
        except (BadInput, UnknownPipeline) as problem:
            faults.append(problem.detail if isinstance(pipeline, str) else f"{pipeline.name}: {problem.detail}")
    if faults:
        raise StackProblem("\n  ".join(["PIPELINES: nothing was started, because:", *faults]))


def collection_of(environment: Mapping[str, str]) -> LocatedSet:
    """Returns the collection of a demo. Raises StackProblem unless it is a single one, or with PRESET."""
    if environment.get("PRESET"):
        raise StackProblem("SYSTEMS=paper: leave out PRESET, which would replace the presets of deepct and doc2query.")
    own = str(read_experiment(bundled_directory() / "demo.yaml")["dataset"])
    try:
        located = load_catalogue().located(environment.get("DATASET") or own)
    except EvaluationError as error:
        raise StackProblem(f"DATASET: {error}.") from error
    if len(located) > 1:
        raise StackProblem(f"SYSTEMS=paper measures one collection: DATASET={located[0].directory}, or another part.")
    return located[0]


def paper_options(
    choices: Choices,
    environment: Mapping[str, str],
    collection: LocatedSet,
    served: Mapping[str, Pipeline],
    evaluator: Evaluator,
    say: Say,
) -> list[str]:
    """Returns the options of the evaluator's `demo`, and reports each pipeline that is left out, with the reason.

    `served`: the pipelines of the running gateway. Variables of the caller go first. The running sparse service makes
    the word frequencies for `deepct`.
    """
    files = _expansions(choices, environment, collection, evaluator)
    expanded = _methods(files)
    options = ["--expansions", ",".join(map(str, files))] if files else []
    if not environment.get("METRICS"):
        options += ["--metrics", METRICS]
    if not environment.get("DEADLINE_MS"):
        options += ["--deadline-ms", str(QUERY_DEADLINE_MS)]
    if not environment.get("PIPELINES"):
        kept = []
        for name in paper_pipelines():
            if name not in served:
                say(f"{name} is left out: this stack does not serve it; the table of systems states what it needs.")
            elif lacking := [preset for preset in presets_of(served[name]) if preset not in expanded]:
                say(f"{name} is left out: no expansions of {lacking[0]} for this collection.")
            else:
                kept.append(name)
        options += ["--pipelines", ",".join(kept)]
    return options


def presets_of(pipeline: Pipeline) -> list[str]:
    """Returns the lexical presets that a pipeline names."""
    stages = (identified.stage for identified in pipeline.identified)
    return [stage.preset for stage in stages if isinstance(stage, Retrieve) and stage.preset is not None]


def _expansions(
    choices: Choices, environment: Mapping[str, str], collection: LocatedSet, evaluator: Evaluator
) -> list[Path]:
    """Returns the files of EXPANSIONS, those beside the corpus, and the word frequencies, which are made if missing."""
    given = [Path(name.strip()) for name in environment.get("EXPANSIONS", "").split(",") if name.strip()]
    _methods(given)  # refuses two files of one kind
    files: dict[str, Path] = {method: path for path in given for method in _methods([path])}
    for method in ("deepct", "doc2query"):
        if method not in files and (beside := collection.directory / f"{method}.jsonl").is_file():
            files[method] = beside
    if "deepct" not in files and (made := _word_frequencies(choices, environment, collection, evaluator)) is not None:
        files["deepct"] = made
    return list(dict.fromkeys(files.values()))


def _methods(files: Sequence[Path]) -> Sequence[str]:
    """Returns the expansions that files hold. Raises StackProblem for a file that holds none."""
    try:
        return tuple(declared_models(files))
    except EvaluationError as error:
        raise StackProblem(f"{error}.") from error


def _word_frequencies(
    choices: Choices, environment: Mapping[str, str], collection: LocatedSet, evaluator: Evaluator
) -> Path | None:
    """Returns the file of word frequencies; None where the sparse service did not make it, and said why."""
    with replaced_environment(environment):
        settings = read_settings(SparseSettings)
    corpus = sha256(corpus_file(collection.directory))
    out = choices.directory / f"deepct-{settings.model}-{corpus[:12]}.jsonl"
    split = collection.known.split if collection.known else "test"
    url = choices.url("sparse") if "sparse" in choices.ports else choices.backends["sparse"].url
    words = ["--out", str(out), "--split", split, "--sparse", url, "--models", str(settings.models)]
    return None if evaluator(choices, "expand", "deepct", str(collection.directory), *words) else out
