"""Defines and builds manifest.json: what is needed to verify or repeat a run (hashes, seed, services, environment)."""

import os
import platform
from collections.abc import Mapping

from pydantic import FiniteFloat

from evaluator.datasets.reader import Dataset, DatasetCounts
from evaluator.environment_record import Environment, Machine, collect_environment
from evaluator.experiment import Experiment
from services.contracts.base import Count
from services.contracts.collections import CollectionState

PACKAGES = ("pydantic", "httpx", "httpx-aiohttp", "aiohttp", "ranx", "numba", "numpy")


class LoadedMachine(Machine):
    """The evaluator's machine and its load. A measured system on the same machine shares its cores."""

    host: str
    load_1m: FiniteFloat  # before the first query


class MeasuringEnvironment(Environment):
    """Where and how `rank` ran, without an interruption."""

    machine: LoadedMachine


class Manifest(MeasuringEnvironment):
    """manifest.json, written before the first query."""

    gateway: str
    experiment: str  # fingerprint
    seed: Count
    dataset_sha256: dict[str, str]
    counts: DatasetCounts
    generation: str
    # By backend: engine, stamp (preset parameters, model, weights hash, …), counts, as the services declared them.
    backends: dict[str, CollectionState]
    pipelines: dict[str, str]  # name → fingerprint of what was sent
    continued: tuple[MeasuringEnvironment, ...] = ()  # where and when an interrupted `rank` went on, in order


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
        seed=experiment.seed,
        dataset_sha256=dict(dataset.hashes),
        counts=dataset.counts,
        generation=generation,
        backends=dict(backends),
        pipelines=dict(pipelines),
    )
