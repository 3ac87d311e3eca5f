"""Sends the traffic of an experiment's `load` and leaves load.json in the run's folder."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from evaluator.client.client import GatewayClient
from evaluator.load.plan_run import run_load
from evaluator.load.report import LoadReport
from evaluator.load.sending.corpus_loader import CorpusLoader
from evaluator.load.sending.driven_traffic import LoadSurroundings
from evaluator.load.sending.prepared_load import prepare_load
from evaluator.load.sending.process_watch import watching
from evaluator.machine.measured_processes import measured_processes
from evaluator.machine.process_costs import NO_PROCESSES
from evaluator.runs.run_folder import RunFolder
from evaluator.steps.pipeline_costs import costs_of
from evaluator.steps.prepared_run import keep_manifest


async def load_step(
    client: GatewayClient,
    folder: RunFolder,
    between: Callable[[], Awaitable[None]] | None = None,
    processes: Mapping[str, str] = NO_PROCESSES,
) -> LoadReport:
    """Drives the traffic of the experiment's `load`; writes `load/`, load.json and, unless there, manifest.json.

    `between`: called before every repeat but the first. `processes`: URLs by name, whose CPU time and memory are
    measured at every point.
    """
    with folder.locked():
        ready = await prepare_load(client, folder)
        keep_manifest(folder, ready.manifest)
        measured = partial(measured_processes, folder.runs, client.url)
        costs = {name: cost.cpu_ms for name, cost in costs_of(folder).pipelines.items()}
        loader = CorpusLoader(client, folder.experiment, ready.dataset) if ready.plan.while_loading else None
        if loader is not None:
            await loader.expect_absent()
        async with watching(processes, folder.path) as watch:
            return await run_load(folder, ready, LoadSurroundings(measured, between, watch, loader), costs)
