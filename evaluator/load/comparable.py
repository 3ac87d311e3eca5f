"""Says whether two loads may be compared, and what differs between them. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from evaluator.errors import EvaluationError
from evaluator.experiments.load_plan import LoadPlan
from evaluator.load.calibration_stub import WORK
from evaluator.load.report import LoadReport
from evaluator.machine.measured_processes import is_this_machine
from evaluator.runs.manifest import LoadedMachine, Manifest

# Fields of a plan that change no request: how a result is read, and the length of the calibration. The seed is compared
# as it was used.
NOT_OF_THE_TRAFFIC = {"best_under_ms", "calibration_seconds", "seed"}
# Kernels reserve more or less of the same memory.
MEMORY_TOLERANCE = 0.02


@dataclass(frozen=True, slots=True)
class LoadSetting:
    """What decides a load, beside the system under test."""

    plan: LoadPlan
    seed: int
    top: int  # hits asked for
    caches: bool
    sample: int | None  # how many of the judged queries are drawn from; None: all
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class KeptLoad:
    """A load that was sent before."""

    name: str
    report: LoadReport
    setting: LoadSetting


def expect_comparable(old: KeptLoad, new: LoadSetting) -> None:
    """Raises EvaluationError, which names what differs, unless the new load may be compared with the old one.

    Both were sent on the same kind of machine, as `setting_differences` tells it.
    """
    if new.plan.capacity is not None:
        raise EvaluationError("--compare compares planned traffic: leave --find-capacity out, it plans its own rates")
    if not new.plan.calibration_seconds:
        raise EvaluationError("--compare needs a calibration: calibration_seconds of the load is 0")
    calibration = old.report.calibration
    if calibration is None:
        raise EvaluationError(
            f"{old.name} has no calibration, so that nothing tells the speed of its machine: send that load again with "
            "this release, or compare two running gateways with --against"
        )
    if calibration.work != WORK:
        raise EvaluationError(
            f"{old.name} was calibrated with other work ({calibration.work}, now {WORK}): send that load again with "
            "this release"
        )
    for name, setting in ((old.name, old.setting), ("the new run", new)):
        if not is_this_machine(setting.manifest.gateway):
            raise EvaluationError(
                f"{name}: the gateway {setting.manifest.gateway} is not on the machine that the calibration measures; "
                "compare two running gateways with --against"
            )
    if found := list(setting_differences(old.setting, new)):
        raise EvaluationError(f"{old.name} cannot be compared, because these differ: {'; '.join(found)}")


def setting_differences(old: LoadSetting, new: LoadSetting) -> Iterator[str]:
    """Yields each difference of kind of machine, dataset and load in words: the old value, then the new one.

    Another host of the same kind is none: containers and runners of CI have a name of their own each time, and the
    calibration measures the speed of both.
    """
    first, second = old.manifest.machine, new.manifest.machine
    yield from _changes(_hardware(first), _hardware(second))
    if abs(second.memory_bytes / first.memory_bytes - 1) > MEMORY_TOLERANCE:
        yield f"memory {first.memory_bytes / 2**30:.1f} GiB, now {second.memory_bytes / 2**30:.1f} GiB"
    hashes = old.manifest.dataset_sha256, new.manifest.dataset_sha256
    if files := sorted(
        name for name in hashes[0].keys() | hashes[1].keys() if hashes[0].get(name) != hashes[1].get(name)
    ):
        yield f"dataset ({', '.join(files)})"
    yield from _changes(_traffic(old), _traffic(new))


def remarked_differences(old: LoadSetting, new: LoadSetting) -> Iterator[str]:
    """Yields what differs and may be what the comparison is about: software, engines, pipelines; host and governor."""
    first, second = old.manifest, new.manifest
    yield from _changes(_software(first), _software(second))
    yield from (f"pipeline {one}" for one in _changes(first.pipelines, second.pipelines))
    for name in sorted(first.backends.keys() & second.backends.keys()):
        before, now = first.backends[name], second.backends[name]
        yield from (
            f"{name}: {one}"
            for one in _changes({"engine": before.engine, **before.stamp}, {"engine": now.engine, **now.stamp})
        )


def _traffic(setting: LoadSetting) -> dict[str, object]:
    planned = setting.plan.model_dump(exclude=NOT_OF_THE_TRAFFIC)
    drawn = {} if setting.sample is None else {"queries": setting.sample, "seed of the queries": setting.manifest.seed}
    pipelines = ", ".join(setting.manifest.pipelines)
    return {
        **planned,
        "seed": setting.seed,
        "top": setting.top,
        "caches": setting.caches,
        "pipelines": pipelines,
        **drawn,
    }


def _hardware(machine: LoadedMachine) -> dict[str, object]:
    return {
        "machine": machine.cpu,
        "cores": machine.cores,
        "CPU limit": machine.cpu_limit,
        "GPUs": tuple(one.in_words for one in machine.gpus),
    }


def _software(manifest: Manifest) -> dict[str, object]:
    dirty = " with changes" if manifest.git_dirty else ""
    return {
        "commit": f"{manifest.git_commit}{dirty}",
        "python": manifest.python,
        **manifest.packages,
        "system": manifest.machine.system,
        "host": manifest.machine.host,
        "governor": manifest.machine.governor,
    }


def _changes(old: Mapping[str, object], new: Mapping[str, object]) -> Iterator[str]:
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) != new.get(name):
            yield f"{name} {_said(old.get(name))}, now {_said(new.get(name))}"


def _said(value: object) -> str:
    """Writes a value as an experiment does."""
    match value:
        case None | ():
            return "none"
        case bool():
            return "on" if value else "off"
        case float():
            return str(value).removesuffix(".0")
        case tuple():
            return ", ".join(map(_said, value))
        case dict():  # of a model: a step
            return "{" + ", ".join(f"{name}: {_said(one)}" for name, one in value.items() if one is not None) + "}"
        case _:
            return str(value)
