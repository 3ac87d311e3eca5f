"""The pipelines that can be asked for: files, parsed at the start and when asked, and those that a search brings."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import assert_never

import yaml
from pydantic import ValidationError

from gateway.families import FAMILIES, Family, named
from gateway.settings import BackendAddress
from services.chassis.configuration import ConfigurationError
from services.chassis.errors import BadInput, UnknownPipeline
from services.contracts.pipelines import (
    Cut,
    Fuse,
    Pipeline,
    PipelineChanges,
    PipelineList,
    PipelineView,
    Rerank,
    Retrieve,
)
from services.contracts.validation_messages import validation_message

STAGE_KINDS = "retrieve, fuse, rerank, cut"
# A pipeline is data from outside: what it costs is bounded before anything is asked of a backend.
MOST_RETRIEVES = 16
MOST_RERANKS = 4
LARGEST_WEIGHT = 1_000.0


class PipelineError(ConfigurationError):
    """A pipeline cannot be walked over the present backends; the message says what to change."""


class Catalog:
    """Pipelines by name, each checked against the backends that there are."""

    def __init__(self, directory: Path, backends: Mapping[str, BackendAddress], *, inline: bool) -> None:
        """Reads all `*.yaml` of a directory. Raises PipelineError naming the file and what is wrong with it."""
        self._directory = directory
        self._backends = dict(backends)
        self._inline = inline
        self._pipelines = read_pipelines(directory, backends)

    def reload(self) -> PipelineChanges:
        """Reads the directory again. Raises PipelineError for the first faulty file; then all stay as they were.

        Searches that are under way keep the pipeline that they began with.
        """
        old, new = self._pipelines, read_pipelines(self._directory, self._backends)
        self._pipelines = new
        both = sorted(old.keys() & new.keys())
        return PipelineChanges(
            added=tuple(sorted(new.keys() - old.keys())),
            changed=tuple(name for name in both if new[name] != old[name]),
            removed=tuple(sorted(old.keys() - new.keys())),
            unchanged=tuple(name for name in both if new[name] == old[name]),
        )

    def resolve(self, asked: str | Pipeline) -> Pipeline:
        """The pipeline of that name, or the given one once it is checked. Raises UnknownPipeline or BadInput."""
        if isinstance(asked, str):
            return self._named(asked)
        if not self._inline:
            raise BadInput(
                "Inline pipelines are switched off here (GATEWAY_INLINE_PIPELINES); name one of: "
                f"{', '.join(sorted(self._pipelines))}."
            )
        try:
            check(asked, self._backends)
        except PipelineError as error:
            raise BadInput(f"pipeline: {error}") from error
        return asked

    def view(self, name: str) -> PipelineView:
        """One pipeline by name. Raises UnknownPipeline."""
        pipeline = self._named(name)
        return PipelineView(name=name, fingerprint=pipeline.fingerprint, pipeline=pipeline)

    def views(self) -> PipelineList:
        """All pipelines, by name."""
        return PipelineList(pipelines=tuple(self.view(name) for name in sorted(self._pipelines)))

    def _named(self, name: str) -> Pipeline:
        if name not in self._pipelines:
            raise UnknownPipeline(f"There is no pipeline '{name}'; known: {', '.join(sorted(self._pipelines))}.")
        return self._pipelines[name]


def read_pipelines(directory: Path, backends: Mapping[str, BackendAddress]) -> dict[str, Pipeline]:
    """All `*.yaml` of a directory by name. Raises PipelineError naming the file and what is wrong with it."""
    pipelines: dict[str, Pipeline] = {}
    for path in sorted(directory.glob("*.yaml")):
        try:
            pipeline = parse(_text(path))
            check(pipeline, backends)
            if pipeline.name != path.stem:
                raise PipelineError(
                    f"name '{pipeline.name}' differs from the file's: write `name: {path.stem}`, or rename the file"
                )
        except PipelineError as error:
            raise PipelineError(f"{path}: {error}") from error
        pipelines[pipeline.name] = pipeline
    if not pipelines:
        raise PipelineError(f"{directory}: no pipeline (*.yaml) there; see GATEWAY_PIPELINES")
    return pipelines


def _text(path: Path) -> str:
    if path.exists() and not path.is_file():
        raise PipelineError("it is no file")  # a pipe would be waited for
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise PipelineError(f"it cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PipelineError("it is no UTF-8 text") from error


def parse(text: str) -> Pipeline:
    """A pipeline from YAML. Raises PipelineError with every place that is wrong and the legal kinds of stages."""
    try:
        content = yaml.safe_load(text)
    except RecursionError as error:
        raise PipelineError("not valid YAML: it is nested too deeply") from error
    # Beside its own errors, PyYAML lets through what Python says of dates, numbers and booleans that are none.
    except (yaml.YAMLError, ValueError, KeyError, AttributeError) as error:
        raise PipelineError(f"not valid YAML: {' '.join(str(error).split())}") from error
    try:
        return Pipeline.model_validate(content)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(str(part) for part in fault['loc']) or 'pipeline'}: {validation_message(fault, Pipeline)}"
            for fault in error.errors(include_url=False, include_input=False)
        )
        raise PipelineError(f"{faults} (kinds of stages: {STAGE_KINDS})") from error


def check(pipeline: Pipeline, backends: Mapping[str, BackendAddress]) -> None:
    """Raises PipelineError unless every stage names a backend of a fitting family and the whole is bounded."""
    stages = list(pipeline.identified)
    families = {name: FAMILIES[backend.family] for name, backend in backends.items()}
    for kind, most in ((Retrieve, MOST_RETRIEVES), (Rerank, MOST_RERANKS)):
        count = sum(isinstance(item.stage, kind) for item in stages)
        if count > most:
            raise PipelineError(f"{count} {kind.__name__.lower()} stages, at most {most} are allowed")
    for item in stages:
        match item.stage:
            case Retrieve() as stage:
                _check_retrieve(item.id, stage, backends)
            case Fuse(weights=weights) if weights and max(weights) > LARGEST_WEIGHT:
                raise PipelineError(f"stage '{item.id}': weights may be at most {LARGEST_WEIGHT:g}")
            case Fuse(method="weighted", normalisation="theoretical-min", inputs=inputs):
                for source in inputs:
                    if least_score(source, families) is None:
                        what = "z-scores have" if isinstance(source, Fuse) else f"backend '{source.backend}' has"
                        raise PipelineError(
                            f"stage '{item.id}': theoretical-min needs inputs with a least score; {what} none"
                        )
            case Rerank(backend=name):
                _check_family(item.id, name, lambda family: family.reranks, backends)
                if not any(family.document_store for family in families.values()):
                    stores = named(lambda family: family.document_store)
                    raise PipelineError(f"stage '{item.id}': re-ranking needs a {stores} backend, the document store")
            case Fuse() | Cut():
                pass
            case _:
                assert_never(item.stage)


def least_score(source: Retrieve | Fuse, families: Mapping[str, Family]) -> float | None:
    """The least score that a source can give: a backend's is its family's, a sum of z-scores has none, others give 0.

    `families` are those of the backends, by the backends' names.
    """
    match source:
        case Retrieve(backend=name):
            return families[name].least_score
        case Fuse(method="weighted", normalisation="z-score"):
            return None
        case Fuse():
            return 0.0
        case _:
            assert_never(source)


def _check_retrieve(identity: str, stage: Retrieve, backends: Mapping[str, BackendAddress]) -> None:
    family = _check_family(identity, stage.backend, lambda family: family.retrieves, backends)
    if stage.preset is not None and not FAMILIES[family].presets:
        presets = named(lambda family: family.presets)
        raise PipelineError(f"stage '{identity}': presets are {presets}; backend '{stage.backend}' is {family}")
    if stage.exact and not FAMILIES[family].exact:
        raise PipelineError(f"stage '{identity}': exact is for vectors; backend '{stage.backend}' is {family}")


def _check_family(
    identity: str, name: str, fits: Callable[[Family], bool], backends: Mapping[str, BackendAddress]
) -> str:
    fit = sorted(known for known, backend in backends.items() if fits(FAMILIES[backend.family]))
    if name not in fit:
        raise PipelineError(f"stage '{identity}': no backend '{name}' for this; there are: {', '.join(fit) or 'none'}")
    return backends[name].family
