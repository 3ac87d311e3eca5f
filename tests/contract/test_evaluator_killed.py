"""`rank`, a process of its own that is killed at random moments, continues where it was."""

import asyncio
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluator.client.client import connected
from evaluator.report.evaluation import ingest_step, quality_step
from evaluator.report.report_step import report_step
from evaluator.runs.run_folder import RunFolder
from tests.support.gateway_stub import GatewayStub
from tests.support.processes import ROOT
from tests.support.served import served
from tests.support.small_runs import planned

SEED = 20_261_123
KILLS = 3
QUERIES = 40  # so many that there is time to kill in
ARMS = ["bm25", "dense", "hybrid"]
WORDS = ("red", "blue", "bell", "steel", "brass", "saddle", "springs", "green", "chain", "oil")


@pytest.mark.integration
@pytest.mark.timeout(180)
def test_a_rank_killed_at_random_moments_leaves_the_run_files_of_an_undisturbed_one(tmp_path: Path) -> None:
    stub = GatewayStub(search_delay_s=0.002)
    with served(stub.app) as url:
        dice, folders = random.Random(SEED), _folders(tmp_path, url, SEED)
        undisturbed = next(folders)
        assert _started(undisturbed, url).wait() == 0
        searches, wanted = len(stub.searches), _run_files(undisturbed)
        assert sorted(wanted) == [f"{arm}.trec" for arm in ARMS]
        killed, folder = 0, next(folders)
        while killed < KILLS:
            stub.searches.clear()
            process = _started(folder, url)
            _kill_at(process, stub, dice.randrange(searches), dice.uniform(0.0, 0.005))
            if process.wait() == -9:
                killed += 1
            else:  # it had ended before the moment, because little was left
                assert _run_files(folder) == wanted
                folder = next(folders)
        assert _started(folder, url).wait() == 0
        assert _run_files(folder) == wanted
        quality_step(folder)
        assert report_step(folder).valid


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
