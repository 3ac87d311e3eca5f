"""Defines an experiment over several datasets (`datasets:`): one experiment for each. Runs nothing."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from pydantic import model_validator

from evaluator.datasets.catalogue import LocatedSet, load_catalogue
from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import Experiment, collection_name, parse_experiment, read_settings
from services.contracts.base import Name, Wire

Locate = Callable[[str], Sequence[LocatedSet]]


class SuiteMember(Wire):
    """One dataset of a suite. `name` is also its folder's name below the suite's."""

    name: Name
    part_of: Name | None = None  # the set whose figure is the mean of its parts: CQADupStack of a forum
    experiment: Experiment


class Suite(Wire):
    """An experiment over several datasets, in the order of the table."""

    name: Name
    members: tuple[SuiteMember, ...]

    @model_validator(mode="after")
    def _members_differ(self) -> Self:
        names = [member.name for member in self.members]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"datasets: two of the name {', '.join(twice)}")
        return self

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics, which all members share."""
        return self.members[0].experiment.metrics

    @property
    def fingerprint(self) -> str:
        """Hash of all fields, 8 hexadecimal digits."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:8]


def read_plan(path: Path, locate: Locate | None = None, /, **overrides: object) -> Experiment | Suite:
    """Reads a YAML file and applies the `overrides` that are not None. Raises EvaluationError.

    A dataset is a directory or a name of the catalogue, unless `locate` finds it in another way. `datasets` makes a
    suite, and so does a `dataset` of several parts (`cqadupstack`); the override `dataset` takes the place of both.
    """
    locate = locate or load_catalogue().located
    content = read_settings(path)
    given = {key: value for key, value in overrides.items() if value is not None}
    if "dataset" in given:
        # The file's collection belongs to the file's dataset: another dataset gets its own.
        own = content.get("dataset")
        if not isinstance(own, str) or Path(own).resolve() != Path(str(given["dataset"])).resolve():
            content.pop("collection", None)
        content.pop("datasets", None)
    content |= given
    listed = content.pop("datasets", None)
    if listed is not None and "dataset" in content:
        raise EvaluationError(f"{path}: give dataset or datasets, not both")
    if listed is None:
        located = _located(locate, content.get("dataset"), f"{path}: dataset")
        if len(located) == 1:
            return _experiment(content, located[0], str(path))
    elif isinstance(listed, Sequence) and not isinstance(listed, str) and listed:
        located = [known for name in listed for known in _located(locate, name, f"{path}: datasets")]
    else:
        raise EvaluationError(f"{path}: datasets: a list of directories or names of the catalogue is needed")
    return _suite(content, located, path)


def experiments_of(plan: Experiment | Suite) -> tuple[Experiment, ...]:
    """Returns the experiments of a plan, one for each dataset."""
    return (plan,) if isinstance(plan, Experiment) else tuple(member.experiment for member in plan.members)


def _located(locate: Locate, given: object, where: str) -> list[LocatedSet]:
    if not isinstance(given, str) or not given:
        raise EvaluationError(f"{where}: a directory or a name of the catalogue is needed")
    return list(locate(given))


def _suite(content: Mapping[str, object], located: Sequence[LocatedSet], path: Path) -> Suite:
    if "collection" in content:
        raise EvaluationError(f"{path}: collection: of several datasets, each gets its own")
    members = []
    for chosen in located:
        part_of = chosen.known.part_of if chosen.known else None
        name = f"{part_of}-{collection_name(chosen.directory)}" if part_of else collection_name(chosen.directory)
        experiment = _experiment({**content, "collection": name}, chosen, str(path))
        members.append(SuiteMember(name=name, part_of=part_of, experiment=experiment))
    try:
        return Suite(name=members[0].experiment.name, members=tuple(members))
    except ValueError as error:
        raise EvaluationError(f"{path}: datasets: the same name twice") from error


def _experiment(content: Mapping[str, object], chosen: LocatedSet, source: str) -> Experiment:
    own = {"split": chosen.known.split} if chosen.known else {}
    return parse_experiment({**own, **content, "dataset": str(chosen.directory)}, source)
