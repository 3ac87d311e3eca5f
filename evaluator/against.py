"""Compares two gateways that hold the same collection, in one run: the work of `load --against`."""

from evaluator.client import GatewayClient
from evaluator.errors import EvaluationError
from evaluator.load.against_report import AgainstReport
from evaluator.load.against_step import run_against
from evaluator.load_step import prepare_load
from evaluator.measured_processes import measured_processes
from evaluator.prepared_run import keep_manifest
from evaluator.run_folder import RunFolder


async def against_step(
    judged: GatewayClient, baseline: GatewayClient, folder: RunFolder, margin: float
) -> AgainstReport:
    """Sends the experiment's `load` to both in turn; writes `load/`, against.json and, unless there, manifest.json."""
    if judged.url == baseline.url:
        raise EvaluationError(f"--against {baseline.url} is the gateway itself; give the URL of another one")
    with folder.locked():
        ready = await prepare_load(judged, folder)
        # Of the gateway that is judged; what the other one serves is what is compared.
        keep_manifest(folder, ready.manifest)
        other = await prepare_load(baseline, folder)
        stacks = [measured_processes(folder.runs, client.url) for client in (baseline, judged)]
        # With one unknown stack on this machine, its CPU time would count as foreign.
        known = None if None in stacks else tuple(pid for pids in stacks for pid in pids or ())
        return await run_against(
            folder,
            ready.plan,
            ready.seed,
            (other.target, ready.target),
            (other.arms, ready.arms),
            (baseline.url, judged.url),
            margin,
            ready.judgments,
            known,
        )
