"""Sends a load and compares it with one that was sent before: the work of `load --compare`."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from pydantic import ValidationError

from evaluator.client.client import GatewayClient
from evaluator.datasets.text_files import sha256
from evaluator.errors import EvaluationError
from evaluator.load.comparable import KeptLoad, LoadSetting, expect_comparable, remarked_differences
from evaluator.load.compared_report import COMPARED, ComparedPoint, ComparedReport, compared_point
from evaluator.load.plan_run import LOAD
from evaluator.load.report import LoadPointReport, LoadReport
from evaluator.load.samples import LoadSample, read_samples
from evaluator.load_step import load_step
from evaluator.machine.process_costs import NO_PROCESSES
from evaluator.report.report import Report
from evaluator.runs.manifest import Manifest
from evaluator.runs.run_folder import RunFolder
from evaluator.thread_work import in_thread

MANIFEST = "manifest.json"
REPORT = "report.json"


async def compare_step(
    client: GatewayClient,
    folder: RunFolder,
    old: Path,
    margin: float,
    between: Callable[[], Awaitable[None]] | None = None,
    processes: Mapping[str, str] = NO_PROCESSES,
) -> tuple[LoadReport, ComparedReport]:
    """Sends the experiment's `load` as `load_step` does, and compares it; writes compared.json last.

    Raises EvaluationError before anything is sent where the two may not be compared.
    """
    kept = await in_thread(read_kept_load, old)
    report = await load_step(client, folder, between, processes, lambda: expect_comparable(kept, _setting(folder)))
    return report, await in_thread(write_compared, folder, report, kept, old, margin)


def read_kept_load(old: Path) -> KeptLoad:
    """Reads the load of a run's folder, or of its report.json alone. Raises EvaluationError."""
    if (folder := _run_folder(old)) is not None:
        return KeptLoad(str(old), folder.read(LOAD, LoadReport), _setting(folder))
    try:
        report = Report.model_validate_json(old.read_bytes())
    except ValidationError as error:
        raise EvaluationError(
            f"{old} says neither machine nor dataset: give the folder of a run, or its report.json"
        ) from error
    if report.load is None:
        raise EvaluationError(f"{old} has no load: give the folder of a run that sent one")
    load = report.load
    setting = LoadSetting(
        plan=load.plan,
        seed=load.seed,
        top=report.timed_top or report.depth,
        caches=load.caches,
        sample=report.sample,
        manifest=report.manifest,
    )
    return KeptLoad(str(old), load, setting)


def write_compared(folder: RunFolder, report: LoadReport, kept: KeptLoad, old: Path, margin: float) -> ComparedReport:
    """Judges every point of the new run and writes compared.json."""
    earlier_speed, speed = kept.report.calibration, report.calibration
    assert earlier_speed is not None  # expect_comparable
    assert speed is not None
    before = _run_folder(old)
    earlier = {(point.pipeline, point.traffic): point for point in kept.report.points}

    def compared(point: LoadPointReport) -> ComparedPoint:
        first = earlier.get((point.pipeline, point.traffic))
        if first is None:
            raise EvaluationError(
                f"{kept.name} has no {point.pipeline} at {point.traffic_in_words}: its trace was another one"
            )
        samples = None if before is None else (_measured(before, first), _measured(folder, point))
        return compared_point(first, point, samples, (earlier_speed, speed), margin, report.seed)

    found = ComparedReport(
        made_from=folder.hashes(LOAD, MANIFEST),
        old=str(old),
        old_sha256=sha256(old if before is None else before.path / LOAD),
        margin=margin,
        old_calibration=earlier_speed,
        new_calibration=speed,
        points=tuple(compared(point) for point in report.points),
        remarks=tuple(remarked_differences(kept.setting, _setting(folder))),
    )
    folder.write(COMPARED, found)
    return found


def _run_folder(old: Path) -> RunFolder | None:
    """Returns the folder of a run that a path means, its load.json or report.json too; None for a file alone."""
    if old.is_dir():
        return RunFolder.open(old)
    beside = old.parent
    whole = all((beside / name).is_file() for name in ("experiment.json", LOAD, MANIFEST))
    return RunFolder.open(beside) if whole and old.name in (LOAD, REPORT) else None


def _setting(folder: RunFolder) -> LoadSetting:
    experiment, manifest = folder.experiment, folder.read(MANIFEST, Manifest)
    if experiment.load is None:
        raise EvaluationError(f"{folder.path}: the experiment has no `load`")
    drawn = experiment.queries
    return LoadSetting(
        plan=experiment.load,
        seed=experiment.load.seed_or(experiment.seed),
        top=experiment.timed_top,
        caches=experiment.caches,
        sample=drawn if drawn is not None and drawn < manifest.counts.judged_queries else None,
        manifest=manifest,
    )


def _measured(folder: RunFolder, point: LoadPointReport) -> list[LoadSample]:
    return [one for one in read_samples(folder.path / point.files["samples"]) if one.phase == "measured"]
