"""Drives two stacks in turn with the same traffic, and leaves samples and, last, against.json in the run's folder."""

from collections.abc import Callable

from evaluator.client.client import GatewayClient
from evaluator.errors import WrongOption
from evaluator.experiments.load_plan import LoadPlan
from evaluator.experiments.turn_orders import balanced_turns
from evaluator.load.against_report import (
    AgainstPoint,
    AgainstReport,
    ComparedStacks,
    DrivenPair,
    against_point,
    against_remarks,
)
from evaluator.load.points.ratios import LEAST_PAIRS
from evaluator.load.sending.driven_traffic import Pids, PreparedLoad, SampleFiles, TimeSlice, prepare_load
from evaluator.load.sending.drives import LoadedPoint, drive
from evaluator.load.sending.traffic import LoadTarget, Traffic, against_work, open_slices
from evaluator.machine.measured_processes import is_same_server, measured_processes
from evaluator.progress import in_thread, progress, say
from evaluator.runs.run_folder import RunFolder
from evaluator.steps.prepared_run import keep_manifest

AGAINST = "against.json"
# The turns of two stacks are short, so that what happens on the machine meets both.
SLICE_SECONDS = 3.0
SIDES = ("baseline", "judged")


def expect_slices(plan: LoadPlan) -> None:
    """Raises WrongOption for traffic that cannot be cut into enough slices of one rate."""
    if not plan.rates or plan.in_flight or plan.capacity:
        raise WrongOption("--against compares at steady rates: give --rate, and no other traffic")
    if plan.repeat > 1:
        raise WrongOption("--against sends every slice once: give --repeat 1, and more --seconds instead")
    if (pairs := _pair_count(plan)) < LEAST_PAIRS:
        raise WrongOption(
            f"--against needs {LEAST_PAIRS} pairs of slices or more, and --seconds {plan.seconds:g} in slices of "
            f"{plan.slice_seconds:g} s are {pairs}: send for {LEAST_PAIRS * plan.slice_seconds:g} s or longer"
        )


def expect_another_gateway(judged: str, baseline: str) -> None:
    """Raises WrongOption where both URLs lead to one gateway."""
    if is_same_server(judged, baseline):
        raise WrongOption(f"--against {baseline} is the gateway itself ({judged}); give the URL of another one")


def _pair_count(plan: LoadPlan) -> int:
    return max(1, round(plan.seconds / plan.slice_seconds))


async def against_step(
    judged: GatewayClient, baseline: GatewayClient, folder: RunFolder, margin: float
) -> AgainstReport:
    """Sends the experiment's `load` to both in turn; writes `load/`, against.json and, unless there, manifest.json."""
    with folder.locked():
        ready = await prepare_load(judged, folder)
        # The manifest is of the gateway that is judged; what the other one serves is compared.
        keep_manifest(folder, ready.manifest)
        other = await prepare_load(baseline, folder)
        stacks = [measured_processes(folder.runs, client.url) for client in (baseline, judged)]
        # With one unknown stack on this machine, its CPU time would count as foreign.
        known = None if None in stacks else tuple(pid for pids in stacks for pid in pids or ())
        return await _run_against(folder, (other, ready), (baseline.url, judged.url), margin, known)


async def _run_against(
    folder: RunFolder, ready: tuple[PreparedLoad, PreparedLoad], urls: tuple[str, str], margin: float, measured: Pids
) -> AgainstReport:
    """Compares every pipeline at every rate. Of each pair the baseline comes first."""
    points: list[AgainstPoint] = []
    baseline, judged = ready
    plan, seed = judged.plan, judged.seed
    targets = (baseline.target, judged.target)
    files, total = SampleFiles(folder), len(plan.rates) * len(judged.arms)
    say(against_work(plan, _pair_count(plan), len(judged.arms)))
    with files.reporting(AGAINST), progress("Against", total, "comparison" if total == 1 else "comparisons") as advance:
        for rate in plan.rates:
            for arm, other in zip(baseline.arms, judged.arms, strict=True):
                pairs = await driven_pairs(targets, arm.name, rate, plan, seed, measured, files.keep)
                prints = (arm.pipeline.fingerprint, other.pipeline.fingerprint)
                stacks = ComparedStacks(urls, prints, arm.name, rate, margin, seed)
                paths = {side: files.path(arm.name, _label(rate, side)) for side in SIDES}
                names = {side: path.relative_to(folder.path).as_posix() for side, path in paths.items()}
                points.append(await in_thread(against_point, stacks, pairs, judged.judgments, names))
                advance(1)
    made_from = folder.hashes(
        "experiment.json", "manifest.json", *(file for point in points for file in point.files.values())
    )
    report = AgainstReport(
        made_from=made_from,
        plan=plan,
        seed=seed,
        baseline=urls[0],
        judged=urls[1],
        margin=margin,
        points=tuple(points),
        remarks=(*judged.manifest.counts.remarks, *against_remarks(folder.experiment, urls, points)),
    )
    folder.write(AGAINST, report)
    return report


async def driven_pairs(
    targets: tuple[LoadTarget, LoadTarget],
    pipeline: str,
    rate: float,
    plan: LoadPlan,
    seed: int,
    measured: Pids,
    on_driven: Callable[[TimeSlice], None] = lambda part: None,
) -> list[DrivenPair]:
    """Sends each slice to both stacks, with the same times and queries. Calls `on_driven` after each, in a thread."""
    pairs = []
    count = _pair_count(plan)
    slices = open_slices(targets[0].queries, rate, plan.seconds / count, count, plan, seed, repeat=0)
    for number, (planned, turn) in enumerate(zip(slices, balanced_turns(2, seed), strict=False)):
        loaded: dict[int, LoadedPoint] = {}
        for at in turn:
            point = await drive(
                targets[at], planned.through(pipeline), plan, rate, warmup_seconds=planned.warmup_s, measured=measured
            )
            traffic = Traffic(_label(rate, SIDES[at]), rate=rate)
            part = TimeSlice.labelled(traffic, pipeline, point, number, repeat=0)
            await in_thread(on_driven, part)
            loaded[at] = part.loaded
        pairs.append(DrivenPair(baseline=loaded[0], judged=loaded[1]))
    return pairs


def _label(rate: float, side: str) -> str:
    return f"{rate:g}-{side}"
