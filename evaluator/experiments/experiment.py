"""Defines an experiment (collection, pipelines, depth, seed) and reads it from YAML. Runs nothing."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from operator import not_
from pathlib import Path
from typing import Annotated, Self, TypeVar

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from evaluator.client.client import QUERY_DEADLINE_MS
from evaluator.datasets.text_files import HashedLines
from evaluator.errors import EvaluationError, WrongOption
from evaluator.experiments.gates import Gates
from evaluator.experiments.load_plan import LoadPlan
from evaluator.experiments.preference import preference
from evaluator.metrics.metric_table import DEFAULT_METRICS, MetricName, parse_metric
from evaluator.progress import shown
from services.chassis.settings.strict_yaml import InvalidYaml, parse_yaml
from services.contracts.base import Count, Depth, FieldName, Name, Text, Wire
from services.contracts.collections import FieldKind, Preset
from services.contracts.lists import Items
from services.contracts.pipelines import Pipeline
from services.contracts.query import AskedPipeline
from services.contracts.validation_messages import validation_message

T = TypeVar("T", bound=Wire)
Positive = Annotated[int, Field(strict=True, ge=1)]
Presets = Annotated[tuple[Preset, ...], Items(1, 8)]
ALL_PRESETS: Presets = ("beir", "anserini-flat", "anserini-multifield")


class Experiment(Wire):
    """Everything that decides the figures of a run except machine and services. Unknown keys are refused."""

    name: Name
    dataset: Text  # a directory in BEIR layout, relative to where the command runs
    collection: Name | None = None  # its name at the gateway; without one, derived from the directory's
    split: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")] = "test"
    strict: bool = False  # refuse what reading the dataset would otherwise count
    # Leave out, and count, queries that no request can carry. Written only if set: older runs keep their fingerprint.
    skip_unsendable: Annotated[bool, Field(exclude_if=not_)] = False
    presets: Presets = ALL_PRESETS  # declared by the collection; the first is what pipelines use that name none
    # Files of what models added to the documents, in the order of the corpus; their presets are declared too.
    expansions: Annotated[tuple[Text, ...], Items(0, 2), Field(exclude_if=not_)] = ()
    metadata: dict[FieldName, FieldKind] | None = None  # fields to filter by; without it, inferred from the values
    rebuild: bool = False  # load into a new generation even if the live one was declared the same
    pipelines: Annotated[tuple[AskedPipeline, ...], Items(1, 32)]
    # The pipeline that the others are set against; without it, the first. Written only if set, as `skip_unsendable`.
    baseline: Annotated[Name | None, Field(exclude_if=not_)] = None
    # What a recommendation goes by: quality, p95=200ms, cpu or index. Written only if set.
    prefer: Annotated[str, Field(exclude_if="quality".__eq__)] = "quality"
    preset: Name | None = None  # lexical preset of every pipeline's lexical retrieves
    depth: Depth = 100
    top: Depth = 10  # hits that a timed request asks for, as an app does; at most `depth` of them
    metrics: Annotated[tuple[MetricName, ...], Items(1, 32)] = DEFAULT_METRICS  # names of metrics.metric_table
    # Of each search. With a shorter one, re-rankings that lack time are a figure of the run; else they are a fault.
    deadline_ms: Annotated[Positive, Field(le=120_000, exclude_if=QUERY_DEADLINE_MS.__eq__)] = QUERY_DEADLINE_MS
    queries: Positive | None = None  # a seeded sample of the judged queries; all of them without it
    seed: Count = 20_250_601
    warmup: Count = 5  # queries through each pipeline before any figure is taken
    caches: bool = False  # `on`: services may answer from their caches; `off` asks for no-store
    recall_queries: Count = 50  # for the recall of approximate vector search; 0 leaves it out
    gates: Gates | None = None  # bounds of figures; where one does not hold, the exit status is 4
    load: LoadPlan | None = None  # traffic that is measured after the queries one at a time

    @field_validator("baseline")
    @classmethod
    def _baseline_is_a_pipeline(cls, baseline: str | None, before: ValidationInfo) -> str | None:
        names = [arm if isinstance(arm, str) else arm.name for arm in before.data.get("pipelines", ())]
        if names and baseline is not None and baseline not in names:
            raise ValueError(f"is not among the pipelines {', '.join(names)}")
        return baseline

    @field_validator("prefer")
    @classmethod
    def _prefer_is_known(cls, prefer: str) -> str:
        return str(preference(prefer))

    @model_validator(mode="after")
    def _arms_are_known_and_differ(self) -> Self:
        names = self.arms
        if len(set(names)) < len(names):
            raise ValueError(f"pipelines: the same name twice: {', '.join(names)}")
        if self.gates is not None and (unknown := [name for name in self.gates.pipelines if name not in names]):
            raise ValueError(f"gates.pipelines: {unknown[0]} is not among the pipelines {', '.join(names)}")
        idle = None if self.gates is None else self.gates.relative_to_itself(names, self.baseline or names[0])
        if idle is not None:
            raise ValueError(f"gates: {idle} is relative to the baseline, and no other pipeline is bound by it")
        return self

    @model_validator(mode="after")
    def _metrics_differ(self) -> Self:
        if len(set(self.metrics)) < len(self.metrics):
            raise ValueError(f"metrics: the same name twice: {', '.join(self.metrics)}")
        return self

    @model_validator(mode="after")
    def _preset_is_served(self) -> Self:
        declared = [item if isinstance(item, str) else item.name for item in self.presets]
        if self.expansions:
            return self  # they declare more, which reading them shows
        for item in self.presets:
            if (needed := item if isinstance(item, str) else item.match) in ("doc2query", "deepct"):
                raise ValueError(f"presets: {needed} scores expansions; name their file under `expansions`")
        if self.preset is not None and self.preset not in declared:
            raise ValueError(f"preset: {self.preset!r} is not among the declared ones: {', '.join(declared)}")
        return self

    @property
    def arms(self) -> tuple[str, ...]:
        """The names of the pipelines, in order."""
        return tuple(arm if isinstance(arm, str) else arm.name for arm in self.pipelines)

    @property
    def directory(self) -> Path:
        """The dataset's directory."""
        return Path(self.dataset)

    @property
    def dataset_name(self) -> str:
        """The name of the dataset's directory, as pages and charts can print it."""
        return shown(self.directory.resolve().name)

    @property
    def target(self) -> str:
        """The collection's name at the gateway."""
        return self.collection or collection_name(self.directory)

    @property
    def timed_top(self) -> int:
        """Hits that a timed request asks for."""
        return min(self.top, self.depth)

    @property
    def ranking_depth(self) -> int:
        """Hits of the rankings: `depth` if a metric looks deeper than the timed answers, else no more than those."""
        deepest = max(parse_metric(name).cutoff or self.depth for name in self.metrics)
        return self.depth if deepest > self.timed_top else self.timed_top

    def baseline_among(self, arms: Sequence[str], chosen: str | None = None) -> str:
        """Returns the pipeline that the others are set against: the chosen one, this experiment's, or the first.

        Raises WrongOption where the chosen one is not among `arms`.
        """
        if chosen is not None and chosen not in arms:
            raise WrongOption(f"--baseline {chosen}: not among the pipelines {', '.join(arms)}")
        return next((name for name in (chosen, self.baseline) if name in arms and name is not None), arms[0])

    @property
    def fingerprint(self) -> str:
        """Hash of all fields, 8 hexadecimal digits."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:8]


def collection_name(directory: Path) -> str:
    """Derives a collection's name from a directory's: lower case, other characters become dashes."""
    name = re.sub(r"[^a-z0-9_-]+", "-", directory.resolve().name.lower()).strip("-_")[:64]
    if not name:
        raise EvaluationError(f"{directory}: no collection name can be derived from it; give one with --collection")
    return name


def read_experiment(path: Path, **overrides: object) -> Experiment:
    """Reads a YAML file and applies the `overrides` that are not None. Raises EvaluationError."""
    given = {key: value for key, value in overrides.items() if value is not None}
    return parse_experiment(read_settings(path) | given, str(path))


def read_settings(path: Path) -> dict[str, object]:
    """Reads a YAML file without checking its fields. Raises EvaluationError."""
    if not path.exists():
        known = ", ".join(sorted(file.stem for file in bundled_directory().glob("*.yaml")))
        raise EvaluationError(f"{path}: no such experiment; there are: {known}, or any YAML file")
    return _mapping(path, "an experiment is a mapping with at least name, dataset and pipelines")


def _mapping(path: Path, otherwise: str) -> dict[str, object]:
    text = HashedLines(path).text()
    try:
        content = parse_yaml(text)
    except InvalidYaml as error:
        raise EvaluationError(f"{path}: not YAML: {error}") from error
    if not isinstance(content, dict):
        raise EvaluationError(f"{path}: {otherwise}")
    return content


def parse_experiment(content: Mapping[str, object], source: str) -> Experiment:
    """Checks an experiment's fields. Raises EvaluationError that begins with `source` and names every wrong one."""
    return _checked(Experiment, content, source)


def read_pipeline(path: Path) -> Pipeline:
    """Reads a pipeline from a YAML file. Raises EvaluationError that begins with `path` and names every wrong field."""
    return _checked(Pipeline, _mapping(path, "a pipeline is a mapping with name and stages"), str(path))


def _checked(model: type[T], content: Mapping[str, object], source: str) -> T:
    try:
        return model.model_validate(content)
    except ValidationError as error:
        lines = "; ".join(
            f"{'.'.join(map(str, item['loc'])) or model.__name__.lower()}: {validation_message(item, model)}"
            for item in error.errors()
        )
        raise EvaluationError(f"{source}: {lines}") from error


def selected_pipelines(experiment: Experiment, names: Sequence[str]) -> list[AskedPipeline]:
    """Returns the pipelines of these names, in their order: the experiment's own, else those of the gateway."""
    arms = dict(zip(experiment.arms, experiment.pipelines, strict=True))
    return [arms.get(name, name) for name in names]


def bundled_directory() -> Path:
    """Returns the folder of this repository's experiments."""
    return Path(__file__).resolve().parent


def experiment_path(name: str) -> Path:
    """Returns the file of an experiment: a name is a bundled file, anything with a suffix a path."""
    return Path(name) if Path(name).suffix else bundled_directory() / f"{name}.yaml"
