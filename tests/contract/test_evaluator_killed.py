"""`rank` in a process of its own, killed with SIGKILL at random moments and continued."""

import asyncio
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluator.client import connected
from evaluator.evaluation import ingest_step, quality_step, report_step
from evaluator.run_folder import RunFolder
from tests.support.gateway_stub import GatewayStub
from tests.support.processes import ROOT
from tests.support.served import served
from tests.support.small_runs import planned

QUERIES = 40
ARMS = ["bm25", "dense", "hybrid"]
WORDS = ("red", "blue", "bell", "steel", "brass", "saddle", "springs", "green", "chain", "oil")
SEED = 20_261_123


@pytest.fixture
def stub() -> GatewayStub:
    return GatewayStub(search_delay_s=0.002)


@pytest.fixture
def url(stub: GatewayStub) -> Iterator[str]:
    with served(stub.app) as url:
        yield url


@pytest.fixture
def folders(url: str, tmp_path: Path) -> Iterator[RunFolder]:
    """Folders of one experiment, each after `ingest`: so many queries that there is time to kill in."""
    experiment = planned(tmp_path, pipelines=ARMS, warmup=3, recall_queries=5)
    dice = random.Random(SEED)
    shop = experiment.directory
    with (shop / "queries.jsonl").open("a") as queries, (shop / "qrels" / "test.tsv").open("a") as qrels:
        for number in range(QUERIES):
            queries.write(f'{{"_id": "n{number}", "text": "{" ".join(dice.sample(WORDS, 3))}"}}\n')
            qrels.write(f"n{number}\td{dice.randint(1, 4)}\t1\n")

    async def load(folder: RunFolder) -> RunFolder:
        async with connected(url) as client:
            await ingest_step(client, folder)
        return folder

    def made() -> Iterator[RunFolder]:
        while True:
            yield asyncio.run(load(RunFolder.create(tmp_path / "runs", experiment)))

    return made()


def started(folder: RunFolder, url: str) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "evaluator", "rank", "--run", str(folder.path), "--gateway", url]
    return subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def run_files(folder: RunFolder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder.path / "runs").iterdir())}


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(1, marks=pytest.mark.timeout(180)),
        pytest.param(20, marks=[pytest.mark.integration, pytest.mark.timeout(500)]),
    ],
)
def test_a_rank_killed_at_random_moments_leaves_the_run_files_of_an_undisturbed_one(
    kills: int, stub: GatewayStub, url: str, folders: Iterator[RunFolder]
) -> None:
    undisturbed = next(folders)
    assert started(undisturbed, url).wait() == 0
    searches = len(stub.searches)
    wanted = run_files(undisturbed)
    assert sorted(wanted) == [f"{arm}.trec" for arm in ARMS]

    dice, killed, folder = random.Random(SEED), 0, next(folders)
    while killed < kills:
        stub.searches.clear()
        moment, pause_s = dice.randrange(searches), dice.uniform(0.0, 0.005)
        process = started(folder, url)
        while len(stub.searches) <= moment and process.poll() is None:
            time.sleep(0.0005)
        time.sleep(pause_s)
        process.kill()
        if process.wait() == -9:
            killed += 1
        else:  # it had ended before the moment, because little was left
            assert run_files(folder) == wanted
            folder = next(folders)
    assert started(folder, url).wait() == 0
    assert run_files(folder) == wanted
    quality_step(folder)
    assert report_step(folder).valid
