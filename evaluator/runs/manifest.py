"""Defines and builds manifest.json: what is needed to verify or repeat a run (hashes, seed, services, environment)."""

import os
import platform
from collections.abc import Mapping
from pathlib import Path

from pydantic import FiniteFloat

from evaluator.datasets.reader import Dataset, DatasetCounts
from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import Experiment
from evaluator.machine.environment_record import Environment, Machine, collect_environment
from evaluator.runs.run_folder import RunFolder
from services.contracts.base import Count
from services.contracts.collections import CollectionState

PACKAGES = ("pydantic", "httpx", "httpx-aiohttp", "aiohttp", "ranx", "numba", "numpy")


class LoadedMachine(Machine):
    """The evaluator's machine and its load. A measured system on the same machine shares its cores."""

    host: str
    load_1m: FiniteFloat  # before the first query


class Manifest(Environment):
    """manifest.json, written before the first query."""

    machine: LoadedMachine
    gateway: str
    experiment: str  # fingerprint
    working_directory: str | None = None  # where a relative path of the experiment begins; null: of an earlier release
    seed: Count
    dataset_sha256: dict[str, str]
    counts: DatasetCounts
    generation: str
    # By backend: engine, stamp (preset parameters, model, weights hash, …), counts, as the services declared them.
    backends: dict[str, CollectionState]
    pipelines: dict[str, str]  # name → fingerprint of what was sent

    @property
    def answer_identity(self) -> dict[str, object]:
        """Everything that decides an answer, by what a message calls it."""
        return {
            "experiment": self.experiment,
            "dataset": self.dataset_sha256,
            "generation": self.generation,
            "engine or model": {name: (state.engine, state.stamp) for name, state in self.backends.items()},
            "number of documents": {name: state.documents for name, state in self.backends.items()},
            "pipeline": self.pipelines,
        }

    @property
    def time_identity(self) -> dict[str, object]:
        """Everything that decides a time: the answers, and where the ranking was measured."""
        machine = self.machine
        return self.answer_identity | {
            "machine": (machine.host, machine.system, machine.cpu, machine.cores, *machine.extras),
            "commit": (self.git_commit, self.git_dirty),
            "version of Python or a package": (self.python, self.packages),
        }


def build_manifest(
    experiment: Experiment,
    dataset: Dataset,
    gateway: str,
    generation: str,
    backends: Mapping[str, CollectionState],
    pipelines: Mapping[str, str],
) -> Manifest:
    """Builds the manifest from the present state. `pipelines`: name → fingerprint."""
    environment = collect_environment(PACKAGES)
    machine = LoadedMachine(**dict(environment.machine), host=platform.node(), load_1m=os.getloadavg()[0])
    return Manifest(
        **{**dict(environment), "machine": machine},
        gateway=gateway,
        experiment=experiment.fingerprint,
        working_directory=str(Path.cwd()),
        seed=experiment.seed,
        dataset_sha256=dict(dataset.hashes),
        counts=dataset.counts,
        generation=generation,
        backends=dict(backends),
        pipelines=dict(pipelines),
    )


def dataset_directory(folder: RunFolder) -> Path:
    """Returns where a run's dataset lies. Raises EvaluationError for a relative path that leads nowhere from here."""
    directory = folder.experiment.directory
    if not directory.is_absolute() and not directory.exists():
        began = folder.read("manifest.json", Manifest).working_directory if folder.has("manifest.json") else None
        raise EvaluationError(
            f"{directory}: not in {Path.cwd()}; the run {folder.name} names its dataset relative to "
            f"{began or 'the folder in which it began'}: run this command there"
        )
    return directory
