"""Kills `rank`, a process of its own, at random moments and continues it; compares with an undisturbed run."""

import asyncio
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from evaluator.client.client import connected
from evaluator.evaluation import ingest_step, quality_step
from evaluator.report.report_step import report_step
from evaluator.runs.run_folder import RunFolder
from tests.soak.outcome import Bar, Outcome
from tests.support.gateway_stub import GatewayStub
from tests.support.processes import ROOT
from tests.support.served import served
from tests.support.small_runs import planned

KILLS = 20
QUERIES = 40  # so many that there is time to kill in
ARMS = ["bm25", "dense", "hybrid"]
WORDS = ("red", "blue", "bell", "steel", "brass", "saddle", "springs", "green", "chain", "oil")
SAYS = (
    f"`rank` sends {QUERIES} queries and the few of a small collection to {len(ARMS)} pipelines of a stub. SIGKILL "
    "ends it when a random number of searches has arrived. It is continued until nothing is left; then the next run "
    "of the same experiment begins."
)


async def run(seed: int, size: int = KILLS) -> Outcome:
    """Kills `size` times."""
    return await asyncio.to_thread(_measured, seed, size)


def _measured(seed: int, kills: int) -> Outcome:
    stub = GatewayStub(search_delay_s=0.002)
    with tempfile.TemporaryDirectory(prefix="soak-") as name, served(stub.app) as url:
        dice, folders = random.Random(seed), _folders(Path(name), url, seed)
        undisturbed = next(folders)
        assert _started(undisturbed, url).wait() == 0
        searches, wanted = len(stub.searches), _run_files(undisturbed)
        assert sorted(wanted) == [f"{arm}.trec" for arm in ARMS]
        killed, runs, differing, folder = 0, 1, 0, next(folders)
        while killed < kills:
            stub.searches.clear()
            process = _started(folder, url)
            _kill_at(process, stub, dice.randrange(searches), dice.uniform(0.0, 0.005))
            if process.wait() == -9:
                killed += 1
            else:  # it had ended before the moment, because little was left
                differing += _run_files(folder) != wanted
                folder = next(folders)
                runs += 1
        ended = _started(folder, url).wait()
        differing += _run_files(folder) != wanted
        quality_step(folder)
        valid = report_step(folder).valid
    bars = (
        Bar("the run files are those of an undisturbed run", f"{differing} of {runs} differ", not differing),
        Bar("the last run ends by itself", f"status {ended}", ended == 0),
        Bar("its report is valid", "yes" if valid else "no", valid),
    )
    rows = ((str(killed), str(runs), str(searches)),)
    return Outcome("killed_ranks", SAYS, seed, ("kills", "runs", "searches of a run"), rows, bars, ())


def _kill_at(process: subprocess.Popen[bytes], stub: GatewayStub, moment: int, pause_s: float) -> None:
    """Kills a process, if it still runs, a pause after the stub has had more than `moment` searches."""
    while len(stub.searches) <= moment and process.poll() is None:
        time.sleep(0.0005)
    time.sleep(pause_s)
    process.kill()


def _folders(directory: Path, url: str, seed: int) -> Iterator[RunFolder]:
    """Yields folders of one experiment, each after `ingest`."""
    experiment = planned(directory, pipelines=ARMS, warmup=3, recall_queries=5)
    dice = random.Random(seed)
    shop = experiment.directory
    with (shop / "queries.jsonl").open("a") as queries, (shop / "qrels" / "test.tsv").open("a") as qrels:
        for number in range(QUERIES):
            queries.write(f'{{"_id": "n{number}", "text": "{" ".join(dice.sample(WORDS, 3))}"}}\n')
            qrels.write(f"n{number}\td{dice.randint(1, 4)}\t1\n")

    async def load(folder: RunFolder) -> RunFolder:
        async with connected(url) as client:
            await ingest_step(client, folder)
        return folder

    while True:
        yield asyncio.run(load(RunFolder.create(directory / "runs", experiment)))


def _started(folder: RunFolder, url: str) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "evaluator", "rank", "--run", str(folder.path), "--gateway", url]
    return subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _run_files(folder: RunFolder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder.path / "runs").iterdir())}
