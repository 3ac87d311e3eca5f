"""Runs the deadline sweep of a run and leaves deadlines.json in its folder."""

from collections.abc import Sequence

from evaluator.client.client import GatewayClient
from evaluator.deadlines.sweep import DEADLINES, DeadlinesFile, sweep
from evaluator.machine.machine_conditions import MachineCounters
from evaluator.machine.measured_processes import measured_processes
from evaluator.runs.run_folder import RunFolder
from evaluator.steps.prepared_run import keep_manifest, prepare_run


async def deadlines_step(
    client: GatewayClient, folder: RunFolder, deadlines_ms: Sequence[int], counters: MachineCounters | None = None
) -> DeadlinesFile:
    """Sends every query at every deadline; writes deadlines.json and, unless there, manifest.json.

    `counters`: of tests.
    """
    with folder.locked():
        ready = await prepare_run(client, folder)
        keep_manifest(folder, ready.manifest)
        measured = measured_processes(folder.runs, client.url)
        found = await sweep(
            client, folder.experiment, ready.dataset, ready.arms, ready.queries, deadlines_ms, measured, counters
        )
        written = found.model_copy(update={"made_from": folder.hashes("experiment.json", "manifest.json")})
        folder.write(DEADLINES, written)
        return written
