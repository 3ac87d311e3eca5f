"""Builds the points of a load from its slices, and the ratios between them; writes the histograms beside the samples.

Sends nothing. What load.json holds of a point is point_report.py's.
"""

from collections.abc import Mapping, Sequence

from evaluator.load.points.point_report import LoadPointReport, point_report
from evaluator.load.sending.kinds import Traffic
from evaluator.load.sending.prepared_load import PreparedLoad
from evaluator.load.sending.sample_files import SampleFiles
from evaluator.load.sending.samples import counted_slices
from evaluator.load.sending.time_slices import TimeSlice
from evaluator.load.statistics.histograms import write_hlog
from evaluator.load.statistics.ratios import PercentileRatio, Slices, loading_ratios, percentile_ratios
from evaluator.runs.run_folder import RunFolder
from evaluator.steps.arms import Arm


def group_points(
    folder: RunFolder,
    files: SampleFiles,
    ready: PreparedLoad,
    group: Sequence[Traffic],
    slices: Sequence[TimeSlice],
    arms: Sequence[Arm],
    restarted: bool,
) -> tuple[list[LoadPointReport], list[PercentileRatio]]:
    """Returns the points and ratios of kinds of traffic that took turns.

    `restarted`: whether a command ran between the repeats.
    """
    points: list[LoadPointReport] = []
    times = {}
    for traffic in group:
        mine = [one for one in slices if one.traffic == traffic.label]
        found, times[traffic.label] = _write_points(folder, files, ready, traffic, mine, arms, restarted)
        points += found
    return points, _ratios(group, times, points, ready.seed)


def _write_points(
    folder: RunFolder,
    files: SampleFiles,
    ready: PreparedLoad,
    traffic: Traffic,
    slices: Sequence[TimeSlice],
    arms: Sequence[Arm],
    restarted: bool,
) -> tuple[list[LoadPointReport], dict[str, list[list[float]]]]:
    """Returns the points of one kind of traffic, and the counted milliseconds of requests by pipeline and slice."""
    points, measured = [], {}
    for arm in arms:
        mine = [one for one in slices if one.pipeline == arm.name]
        paths = {
            "samples": files.path(arm.name, traffic.label),
            "histogram": files.path(arm.name, traffic.label).with_suffix(".hlog"),
        }
        measured[arm.name] = counted_slices(
            sample
            for one in mine
            for sample in one.loaded.samples
            if sample.pipeline == arm.name and sample.phase == "measured"
        )
        write_hlog(paths["histogram"], mine[0].loaded.began, on_one_clock(mine, arm.name))
        names = {name: path.relative_to(folder.path).as_posix() for name, path in paths.items()}
        points.append(
            point_report(arm, traffic, mine, ready.plan, ready.target, ready.judgments, names, restarted=restarted)
        )
    return points, measured


def _ratios(
    group: Sequence[Traffic],
    times_ms: Mapping[str, Mapping[str, Slices]],
    points: Sequence[LoadPointReport],
    seed: int,
) -> list[PercentileRatio]:
    """Compares pipelines within a kind of traffic, then each pipeline while loading and idle. `times_ms`: by label."""
    doubtful = {
        traffic.label: {point.pipeline for point in points if point.traffic == traffic.label and not point.timing_valid}
        for traffic in group
    }
    found: list[PercentileRatio] = []
    for traffic in group:
        if traffic.loop == "open":
            found += percentile_ratios(traffic.label, times_ms[traffic.label], seed, doubtful[traffic.label])
    if len(group) == 2:
        idle, loading = (times_ms[traffic.label] for traffic in group)
        found += loading_ratios(group[0].label, idle, loading, seed, set().union(*doubtful.values()))
    return found


def on_one_clock(slices: Sequence[TimeSlice], pipeline: str) -> list[tuple[float, float]]:
    """Returns the measured requests of a pipeline: seconds since the first slice began, and counted milliseconds."""
    return [
        (one.loaded.began_s - slices[0].loaded.began_s + sample.planned_s, sample.counted_ms)
        for one in slices
        for sample in one.loaded.samples
        if sample.pipeline == pipeline and sample.phase == "measured"
    ]
